import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { isPublicAddress } from '../../lib/addresses.ts'

/**
 * Returns the address of the client of a server behind a proxy. A peer with a private or loopback address is the proxy: then this is
 * the last address in `X-Forwarded-For`, which the proxy has added. Earlier ones may be made up by the client.
 */
export function addressBehindProxy({
  headers,
  socket,
}: Pick<IncomingMessage, 'headers' | 'socket'>): string | undefined {
  const peer = socket.remoteAddress
  if (peer === undefined || isPublicAddress(peer)) return peer
  const last = [headers['x-forwarded-for']].flat().at(-1)?.split(',').at(-1)?.trim() ?? ''
  return isIP(last) === 0 ? peer : last
}

import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { isPublicAddress } from '../../lib/addresses.ts'

/**
 * Returns the address of the client of a server behind a proxy. If the peer's address is private or a loopback
 * address, the peer is assumed to be the proxy. In this case, the client's address is the last one in
 * `X-Forwarded-For`, because the proxy added it. The client may have forged the earlier addresses.
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

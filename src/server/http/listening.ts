import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import type { Config } from '../../config.ts'
import { messageOf } from '../../lib/errors.ts'

type Address = Pick<Config, 'host' | 'port'>

/**
 * Starts listening, and resolves once the server accepts connections.
 * @throws Error with a one-line message that says which setting is wrong
 */
export async function listen(server: Server, address: Address): Promise<void> {
  await listenAt(server, address, address.port)
}

/** @param at the port to listen on; error messages name the configured port instead */
async function listenAt(server: Server, { host, port }: Address, at: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(at, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw inUse({ host, port })
    if (code === 'EACCES')
      throw new Error(`PORT: this user may not listen on ${host}:${port}; set PORT to another port`)
    throw new Error(`HOST: cannot listen on ${host}:${port}: ${messageOf(error)}`)
  }
}

const inUse = ({ host, port }: Address) =>
  new Error(`PORT: ${host}:${port} is in use; stop the process that uses it, or set PORT to another port`)

/**
 * Checks that the host belongs to this machine and that no process listens on the port. Called before the start
 * creates, migrates or locks anything. Does not listen on the port, because a proxy might then send requests that
 * would be lost when the check ends.
 * @throws the same errors as `listen`
 */
export async function checkAddress(address: Address): Promise<void> {
  const server = createServer()
  await listenAt(server, address, 0)
  await new Promise((resolve) => server.close(resolve))
  if (address.port !== 0 && (await isAnswered(address))) throw inUse(address)
}

/** The loopback address at which this machine can reach a server that listens on all addresses. */
const LOOPBACK: Readonly<Record<string, string>> = { '::': '::1', '0.0.0.0': '127.0.0.1' }

async function isAnswered({ host, port }: Address): Promise<boolean> {
  const socket = connect({ host: LOOPBACK[host] ?? host, port })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

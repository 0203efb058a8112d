import { createServer, type Server } from 'node:net'
import type { Config } from '../../config.ts'
import { messageOf } from '../../lib/errors.ts'

type Address = Pick<Config, 'host' | 'port'>

/** Resolves once the server accepts connections. @throws one line that names the wrong setting */
export async function listen(server: Server, { port, host }: Address): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw new Error(`PORT: ${host}:${port} is in use; stop what uses it, or set PORT`)
    if (code === 'EACCES') throw new Error(`PORT: this user may not listen on ${host}:${port}; set PORT to another one`)
    throw new Error(`HOST: cannot listen on ${host}:${port}: ${messageOf(error)}`)
  }
}

/**
 * Checks that the address is available, before the start creates, migrates or locks anything. @throws the same
 * errors as `listen`
 */
export async function checkAddress(address: Address): Promise<void> {
  const server = createServer()
  await listen(server, address)
  await new Promise((resolve) => server.close(resolve))
}

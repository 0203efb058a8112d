import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A proxy to a server on the loopback interface, whose connections a test can break. */
export interface TcpProxy {
  port: number
  /** Breaks all connections. */
  cut(): void
  /** Stops reading from the server on all connections, as a slow client does. */
  stall(): void
  resume(): void
  dispose(): Promise<void>
}

export async function startTcpProxy(toPort: number): Promise<TcpProxy> {
  const fromServer = new Set<Socket>()
  const server = createServer((client) => {
    const target = connect(toPort, '127.0.0.1')
    fromServer.add(target)
    client.pipe(target)
    target.on('data', (chunk) => client.write(chunk))
    for (const socket of [client, target]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        fromServer.delete(target)
        client.destroy()
        target.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of fromServer) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    stall() {
      for (const socket of fromServer) socket.pause()
    },
    resume() {
      for (const socket of fromServer) socket.resume()
    },
    async dispose() {
      const closed = once(server, 'close')
      server.close()
      cut()
      await closed
    },
  }
}

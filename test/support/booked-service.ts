import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A service for an HTTP tool. If the URL of a tool has a `status` in its query, this is the status of the responses. */
export interface BookedService {
  url: string
  /** The requests with their Idempotency-Keys, oldest first. */
  // biome-ignore lint/suspicious/noExplicitAny: inputs, read freely by assertions
  calls: { key: string; input: any }[]
  /** Delays the responses until this promise resolves. */
  hold: Promise<unknown>
  /** The response; by default `{ booked: <the input> }`. */
  answer?: object
  close(): Promise<void>
}

export async function openService(): Promise<BookedService> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', async () => {
      const input = JSON.parse(body)
      service.calls.push({ key: String(request.headers['idempotency-key']), input })
      await service.hold
      response.statusCode = Number(new URL(request.url ?? '', service.url).searchParams.get('status') ?? 200)
      response.setHeader('content-type', 'application/json').end(JSON.stringify(service.answer ?? { booked: input }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const service: BookedService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    calls: [],
    hold: Promise.resolve(),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return service
}

import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

const TOO_MUCH = Buffer.alloc(3 * 1024 * 1024, 'x')

describe('a request that is answered before it was read', () => {
  let parley: TestServer
  let authorization: string

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded', worker: false })
    authorization = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
  })
  afterAll(() => parley?.close())

  function requestOf(path: string, body: Buffer, framing: 'length' | 'chunked'): Buffer {
    const size = framing === 'length' ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked'
    const head = `POST ${path} HTTP/1.1\r\nHost: parley\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\n${size}\r\n\r\n`
    if (framing === 'length') return Buffer.concat([Buffer.from(head), body])
    return Buffer.concat([Buffer.from(`${head}${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
  }

  /** Sends requests one after another on one connection, and answers with the statuses of as many answers. */
  function statusesOf(requests: Buffer[]): Promise<string[]> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(parley.origin).port), '127.0.0.1')
      let text = ''
      socket.on('data', (data) => {
        text += data
        const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = '']) => status)
        if (statuses.length < requests.length) return
        socket.destroy()
        resolve(statuses)
      })
      socket.on('error', reject)
      for (const request of requests) socket.write(request)
    })
  }

  test.each([
    ['/graphql', 'length'],
    ['/graphql', 'chunked'],
    ['/hooks/agents/whk_00000000000000000000000000000000', 'length'],
    ['/hooks/agents/whk_00000000000000000000000000000000', 'chunked'],
  ] as const)('leaves its connection to the next one: %s, by %s', async (path, framing) => {
    const next = requestOf('/graphql', Buffer.from('{"query":"{ __typename }"}'), 'length')
    expect(await statusesOf([requestOf(path, TOO_MUCH, framing), next])).toEqual(['413', '200'])
  })
})

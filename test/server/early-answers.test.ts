import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

const TOO_MUCH = Buffer.alloc(3 * 1024 * 1024, 'x')

describe('a request that gets its response before its body was read', () => {
  let parley: TestServer
  let authorization: string

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    authorization = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
  })
  afterAll(() => parley?.close())

  function requestOf(path: string, body: Buffer, framing: 'length' | 'chunked'): Buffer {
    const size = framing === 'length' ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked'
    const head = `POST ${path} HTTP/1.1\r\nHost: parley\r\nContent-Type: application/json\r\nAuthorization: ${authorization}\r\n${size}\r\n\r\n`
    if (framing === 'length') return Buffer.concat([Buffer.from(head), body])
    return Buffer.concat([Buffer.from(`${head}${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
  }

  /**
   * Sends requests one after another on one connection. Returns the responses, until the server has closed the connection or
   * there are `enough`.
   */
  function responsesTo(requests: Buffer[], enough: number): Promise<{ statuses: string[]; isClosed: boolean }> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(parley.origin).port), '127.0.0.1')
      let text = ''
      const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = '']) => status)
      socket.on('data', (data) => {
        text += data
        if (statuses().length < enough) return
        socket.destroy()
        resolve({ statuses: statuses(), isClosed: false })
      })
      socket.on('end', () => resolve({ statuses: statuses(), isClosed: true }))
      socket.on('error', reject)
      for (const request of requests) socket.write(request)
    })
  }

  const next = () => requestOf('/graphql', Buffer.from('{"query":"{ __typename }"}'), 'length')

  test.each([
    ['/graphql', 'length'],
    ['/graphql', 'chunked'],
    ['/hooks/agents/whk_00000000000000000000000000000000', 'length'],
    ['/hooks/agents/whk_00000000000000000000000000000000', 'chunked'],
  ] as const)('gets the reason, then its connection is closed: %s, by %s', async (path, framing) => {
    const responses = await responsesTo([requestOf(path, TOO_MUCH, framing), next()], 2)
    expect(responses).toEqual({ statuses: ['413'], isClosed: true })
  })

  test('keeps its connection if the body was small or was read completely', async () => {
    const requests = [
      requestOf('/graphql', Buffer.from('no JSON'), 'chunked'),
      requestOf('/graphql', Buffer.from('no JSON'), 'length'),
      requestOf('/invitations/nobody', Buffer.from('{}'), 'length'),
      requestOf('/nothing', Buffer.from('{}'), 'length'),
    ]
    const { statuses } = await responsesTo([...requests, next()], 5)
    expect(statuses).toEqual(['400', '400', '404', '404', '200'])
  })
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'
import { requestOf } from './mcp-client.ts'

const MEBIBYTE = 1024 * 1024

/** A request that stays open. */
interface Opening {
  path: string
  headers: Record<string, string>
  body: object
}

/** Tests what all protocol endpoints share: sign-in, limits, bodies, origins, and the end of a token. */
describe('every door', () => {
  let parley: TestServer
  let ada: HumanViewer
  let token: string
  let openings: Record<string, Opening>
  beforeAll(async () => {
    parley = await startTestServer({ settings: { PARLEY_MAX_SOCKETS_PER_VIEWER: '1' } })
    parley.models.script(() => [{ hang: true }])
    const room = await parley.room('Ada')
    ada = room.human
    token = await parley.tokenOf(ada)
    const { space, agent } = room
    const listening = requestOf('subscriptions/listen', {
      notifications: { resourceSubscriptions: [`parley://spaces/${space.id}`] },
    })
    const sending = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Go' }] } }
    openings = {
      'AG-UI': {
        path: `/ag-ui/spaces/${space.id}`,
        headers: {},
        body: {
          threadId: 't',
          runId: 'r',
          state: {},
          tools: [],
          context: [],
          messages: [{ id: 'm', role: 'user', content: 'Go' }],
        },
      },
      'Open Responses': {
        path: '/v1/responses',
        headers: {},
        body: { model: agent.id, input: 'Go', stream: true },
      },
      MCP: {
        path: '/mcp',
        headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
        body: listening,
      },
      A2A: {
        path: `/a2a/spaces/${space.id}`,
        headers: { 'a2a-version': '1.0' },
        body: { jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage', params: sending },
      },
    }
  })
  afterAll(() => parley?.close())

  const DOORS = ['AG-UI', 'Open Responses', 'MCP', 'A2A']

  function open(
    door: string,
    more: { headers?: Record<string, string>; body?: string; signal?: AbortSignal; by?: string } = {},
  ): Promise<Response> {
    const { path, headers, body } = openings[door] as Opening
    return fetch(`${parley.origin}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${more.by ?? token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
        ...more.headers,
      },
      body: more.body ?? JSON.stringify(body),
      ...(more.signal === undefined ? {} : { signal: more.signal }),
    })
  }

  test.each(DOORS)(
    '%s refuses requests without a token, from another site, and with an invalid or too large body',
    async (door) => {
      const statusOf = async (more: Parameters<typeof open>[1]) => {
        const response = await open(door, more)
        await response.body?.cancel()
        return response.status
      }
      expect(await statusOf({ headers: { authorization: 'Basic eDp5' } })).toBe(401)
      expect(await statusOf({ by: 'nonsense' })).toBe(401)
      expect(await statusOf({ headers: { origin: 'https://evil.example' } })).toBe(403)
      expect(await statusOf({ headers: { 'content-type': 'text/plain' } })).toBe(415)
      expect(await statusOf({ body: '{' })).toBe(400)
      expect(await statusOf({ body: `"${'x'.repeat(MEBIBYTE)}"` })).toBe(413)
      expect(parley.models.requests).toEqual([])
    },
  )

  test.each(DOORS)('a stream of %s counts towards the viewer’s limit at all endpoints until it ends', async (door) => {
    const left = new AbortController()
    const response = await open(door, { signal: left.signal })
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('event-stream'),
    ])
    for (const other of DOORS) {
      const refused = await open(other)
      expect([other, refused.status, refused.headers.get('retry-after')]).toEqual([other, 429, '5'])
      await refused.body?.cancel()
    }
    left.abort()
    await until('the place is free', async () => {
      const again = new AbortController()
      const { status } = await open('MCP', { signal: again.signal })
      again.abort()
      return status === 200
    })
  })

  test.each(DOORS)('a stream of %s ends with its token, and reports the reason', async (door) => {
    const { domain } = parley.app
    const { accessToken, secret } = await domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const response = await until('a place is free', async () => {
      const one = await open(door, { by: secret })
      if (one.status === 200) return one
      await one.body?.cancel()
      return null
    })
    const text = response.text()
    await domain.tokens.revoke(parley.admin, { id: accessToken.id })
    expect(await text).toMatch(/UNAUTHENTICATED|valid bearer token/)
  })
})

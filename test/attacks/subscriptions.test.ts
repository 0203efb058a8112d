import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe('the subscriptions of one human', () => {
  let parley: TestServer
  const clients: ParleyClient[] = []

  beforeAll(async () => {
    parley = await startTestServer({
      worker: false,
      settings: { PARLEY_MAX_SOCKETS_PER_VIEWER: '3' },
    })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await parley?.close()
  })

  async function someone() {
    const human = await parley.human('Mallory')
    const { id } = await parley.space(human, [])
    return { spaceId: id, token: await parley.tokenOf(human) }
  }
  function socketOf(token: string): ParleyClient {
    const client = createParleyClient({ origin: parley.origin, token })
    clients.push(client)
    return client
  }
  const watch = (client: ParleyClient, text: string) => client.subscribe({ toString: () => text } as never, {} as never)
  /** Resolves to whether the subscription is active, once this is known. */
  async function standing(client: ParleyClient, text: string): Promise<string> {
    const watched = watch(client, text)
    const ended = watched.ended.then((reason) => JSON.stringify(reason))
    const stands = until('the subscription is active', async () => watched.seen.length > 0).then(() => 'stands')
    return Promise.race([ended, stands])
  }
  const heavy = (
    spaceId: string,
    n: number,
  ) => `subscription Heavy${n} { spaceMessages(spaceId: "${spaceId}") { __typename
    ... on SpaceSnapshot { space { ${Array.from({ length: 25 }, (_, a) => `a${a}: messages(last: 100) { edges { node { id text sender { id } } } }`).join(' ')} } }
    ... on MessagePosted { message { space { ${Array.from({ length: 25 }, (_, a) => `a${a}: messages(last: 100) { edges { node { id text sender { id } } } }`).join(' ')} } } } } }`

  test('only a few subscriptions may have different expensive selections; many may have the same selection', async () => {
    const { spaceId, token } = await someone()
    const client = socketOf(token)
    const results: string[] = []
    for (let n = 0; n < 5; n += 1) results.push(await standing(client, heavy(spaceId, n)))
    expect(results[0]).toBe('stands')
    expect(results.at(-1)).toContain('RATE_LIMITED')
    expect(await standing(client, heavy(spaceId, 0))).toBe('stands')
    const light = `subscription { spaceMessages(spaceId: "${spaceId}") { __typename } }`
    const other = await someone()
    expect(await standing(socketOf(other.token), light.replace(spaceId, other.spaceId))).toBe('stands')
  })

  test('are counted over all sockets and event streams together', async () => {
    const { spaceId, token } = await someone()
    const light = `subscription { spaceMessages(spaceId: "${spaceId}") { __typename } }`
    const sockets = [socketOf(token), socketOf(token), socketOf(token)]
    const one = sockets[0]!
    const watched = Array.from({ length: 298 }, (_, n) => watch(sockets[(n + 1) % 3]!, light))
    await Promise.all(watched.map((each) => until('the subscription is active', async () => each.seen.length > 0)))
    const byStream = () =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { accept: 'text/event-stream', 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({ query: light }),
      })
    const streams = [await byStream(), await byStream()]
    const refused = await byStream()
    expect(await refused.text()).toContain('RATE_LIMITED')
    expect(await standing(one, light)).toContain('RATE_LIMITED')
    for (const stream of streams) await stream.body?.cancel()
    watched[0]?.stop()
    await until('another one is accepted again', async () => (await standing(one, light)) === 'stands')
  })

  test('subscriptions to viewerEvents follow at most two hundred spaces in total', async () => {
    const { token } = await someone()
    const sockets = [socketOf(token), socketOf(token), socketOf(token)]
    const watched = Array.from({ length: 201 }, (_, n) =>
      watch(sockets[n % 3]!, 'subscription { viewerEvents { __typename } }'),
    )
    const refused = await Promise.race(watched.map(({ ended }) => ended))
    expect(JSON.stringify(refused)).toContain('RATE_LIMITED')
  })

  test('waiting subscriptions whose socket closes cause no internal error', async () => {
    const { token } = await someone()
    const logged = vi.spyOn(parley.app.platform.logger, 'error')
    const client = createParleyClient({ origin: parley.origin, token })
    const before = await openSockets()
    await client.connect()
    const { promise: gate, resolve: open } = Promise.withResolvers<never>()
    const page = vi.spyOn(parley.app.domain.spaces, 'page').mockReturnValue(gate)
    const fields = Array.from({ length: 240 }, (_, n) => `b${n}: name`).join(' ')
    for (let n = 0; n < 3; n += 1) watch(client, `{ spaces(first: 100) { edges { node { ${fields} } } } }`)
    await until('one of the operations is running', async () => page.mock.calls.length > 0)
    await client.close()
    await until('its socket is gone', async () => (await openSockets()) === before)
    open({ items: [], hasNextPage: false, hasPreviousPage: false } as never)
    expect(page).toHaveBeenCalledTimes(1)
    expect(logged).not.toHaveBeenCalled()
  })

  async function openSockets(): Promise<number> {
    const figures = await (await fetch(`${parley.origin}/metrics`)).text()
    return Number(/^parley_sockets (\d+)/m.exec(figures)?.[1])
  }
})

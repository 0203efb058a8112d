import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requesterHere } from '../../src/lib/requester-context.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const made = () => randomBytes(32).toString('base64url')

describe('made-up credentials', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  const ask = (headers: Record<string, string>) =>
    fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ query: '{ __typename }' }),
    }).then(({ status }) => status)

  /** Records the statements on a table while `work` runs, each with its requester. */
  async function requestersOf(table: string, work: () => Promise<unknown>): Promise<(string | undefined)[]> {
    const { db } = parley.app.platform
    const { query } = db
    const requesters: (string | undefined)[] = []
    db.query = (statement) => {
      if (statement.text.includes(`"${table}"`)) requesters.push(requesterHere())
      return query(statement)
    }
    try {
      await work()
    } finally {
      db.query = query
    }
    return requesters
  }

  test('are looked up in a queue of their own, so that no token that was valid before waits for them', async () => {
    const authorization = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
    expect(await ask({ authorization })).toBe(200)
    const known = await requestersOf('AccessToken', () => ask({ authorization }))
    const unknown = await requestersOf('AccessToken', () => ask({ authorization: `Bearer prl_${made()}` }))
    expect(known).toEqual(['known-credentials'])
    expect(unknown).toEqual(['unknown-credentials'])
  })

  test('cookies with made-up sessions share a few statements, and real sessions only wait for those of the same human', async () => {
    const ada = await parley.human('Ada')
    const { sessions } = parley.app.domain
    const { secret } = await sessions.openForHuman({ humanId: ada.id, by: 'mail', userAgent: undefined, replaced: [] })
    const resume = (cookie: string) => sessions.authenticate(cookie, { renews: false })
    const flood = await requestersOf('Session', () => Promise.all(Array.from({ length: 500 }, () => resume(made()))))
    expect(new Set(flood)).toEqual(new Set(['unknown-credentials']))
    expect(flood.length).toBeLessThan(5)
    expect(await requestersOf('Session', () => resume(secret))).toEqual(['unknown-credentials', ada.id])
    expect(await requestersOf('Session', () => resume(secret))).toEqual([ada.id])
    await sessions.signOut([secret])
    expect(await resume(secret)).toBeNull()
    expect(await requestersOf('Session', () => resume(secret))).toEqual(['unknown-credentials'])
  })
})

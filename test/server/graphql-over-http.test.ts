import { serverAudits } from 'graphql-http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

// The MUST, SHOULD and MAY audits of the GraphQL Foundation's reference implementation of GraphQL over HTTP.
describe('GraphQL over HTTP, according to the audits of graphql-http', () => {
  let parley: TestServer
  let authorization: string

  beforeAll(async () => {
    const settings = { PARLEY_RATE_REQUESTS: '0' }
    parley = await startTestServer({ worker: false, settings })
    authorization = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
  })
  afterAll(() => parley?.close())

  const audits = serverAudits({
    url: () => `${parley.origin}/graphql`,
    fetchFn(url: string, { headers, ...given }: RequestInit = {}) {
      return fetch(url, { ...given, headers: { ...(headers as Record<string, string>), authorization } })
    },
  })

  test('there are 61 audits', () => {
    expect(audits).toHaveLength(61)
  })

  test.each(audits)('$id: $name', async ({ fn }) => {
    const { status, ...failed } = await fn()
    const answer = 'response' in failed ? await failed.response.clone().text() : null
    expect({ status, ...failed, answer }).toMatchObject({ status: 'ok' })
  })
})

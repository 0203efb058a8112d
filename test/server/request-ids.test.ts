import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Run } from '../../src/generated/prisma/client.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe('the log of a started server', () => {
  let models: ModelServer
  let parley: ParleyProcess

  beforeAll(async () => {
    models = await startModelServer()
    const settings = { PARLEY_LOG_LEVEL: 'debug', OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: models.baseUrl }
    parley = await startParley({ settings })
  })
  afterAll(async () => {
    await parley?.stop()
    await models?.close()
  })

  /** Returns the JSON lines of the log, as an operator's log collector reads them. */
  const lines = (): Record<string, unknown>[] =>
    parley
      .output()
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : []))
  const line = (what: string, isIt: (line: Record<string, unknown>) => boolean) =>
    until(what, () => lines().find(isIt) ?? false)
  const ask = (headers: Record<string, string>) =>
    fetch(`${parley.origin}/graphql?query={__typename}`, {
      headers: { authorization: `Bearer ${parley.adminToken}`, ...headers },
    })

  test('has each request under its id, which the response repeats in a header: the client’s own id or a new one', async () => {
    const own = await ask({ 'x-request-id': 'from-a-proxy:7' })
    expect(own.headers.get('x-request-id')).toBe('from-a-proxy:7')
    const logged = await line('its end', ({ requestId }) => requestId === 'from-a-proxy:7')
    expect(logged).toMatchObject({ method: 'GET', path: '/graphql', status: 200, ms: expect.any(Number) })
    const made = [await ask({}), await ask({ 'x-request-id': 'with a space, "quotes" and more' })]
    const ids = made.map(({ headers }) => headers.get('x-request-id'))
    for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(new Set(ids).size).toBe(2)
    for (const id of ids) await line('the end of each', ({ requestId }) => requestId === id)
  })

  test('contains no code of an invitation', async () => {
    const headers = { 'x-request-id': 'an-invitation' }
    await fetch(`${parley.origin}/invitations/hidden-words`, { method: 'POST', headers })
    const logged = await line('its end', ({ requestId, path }) => requestId === 'an-invitation' && path !== undefined)
    expect(logged).toMatchObject({ path: '/invitations/…' })
    expect(parley.output()).not.toContain('hidden-words')
  })

  test('contains no code of an email or a join link, even below a prefix that a proxy adds', async () => {
    for (const [n, path] of [
      '/auth/mail/hidden-words',
      '/x/join/hidden-words',
      '/x/auth/mail/hidden-words',
    ].entries()) {
      await fetch(`${parley.origin}${path}`, { method: 'POST', headers: { 'x-request-id': `a-code-${n}` } })
      await line('its end', ({ requestId, path }) => requestId === `a-code-${n}` && path !== undefined)
    }
    expect(parley.output()).not.toContain('hidden-words')
  })

  test('has the run and agent in the lines of a run, and no request id', async () => {
    const admin = createParleyClient({ origin: parley.origin, token: parley.adminToken })
    models.script(() => [{ error: 'no such key', status: 401 }])
    const { data: made } = await admin.ask<{ createAgent: { agent: { id: string } } }>(
      `mutation { createAgent(input: { name: "Iris", instructions: "", model: "openai.chat:test" }) {
        ... on CreateAgentPayload { agent { id } } } }`,
    )
    const agentId = made?.createAgent.agent.id
    const { data: granted } = await admin.ask<{ createAccessToken: { secret: string } }>(
      `mutation { createAccessToken(input: { grant: { service: { name: "pager" } } }) {
        ... on CreateAccessTokenPayload { secret } } }`,
    )
    const pager = createParleyClient({ origin: parley.origin, token: granted?.createAccessToken.secret ?? '' })
    const { data: woken } = await pager.ask<{ triggerAgent: { run: Run } }>(
      `mutation ($input: TriggerAgentInput!) { triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } } }`,
      { input: { agentId, payload: { text: 'Hello' } } },
    )
    const runId = woken?.triggerAgent.run.id
    const failed = await line('that it failed', ({ msg }) => msg === 'the run failed')
    expect(failed).toMatchObject({ runId, agentId, error: expect.stringContaining('no such key') })
    expect(failed).not.toHaveProperty('requestId')
    await admin.close()
    await pager.close()
  })
})

describe('an unexpected error', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_LOG_LEVEL: 'silent' } })
  })
  afterAll(() => parley?.close())

  test('a failed request gives the client its id', async () => {
    const { domain } = parley.app
    const token = await parley.tokenOf(parley.admin)
    const { page } = domain.tokens
    domain.tokens.page = () => Promise.reject(new Error('broken'))
    const response = await fetch(`${parley.origin}/graphql?query={accessTokens{edges{node{id}}}}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    domain.tokens.page = page
    const { errors } = (await response.json()) as { errors: { extensions: { requestId: string } }[] }
    expect(errors[0]?.extensions.requestId).toBe(response.headers.get('x-request-id'))
  })
})

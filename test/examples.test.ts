import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forAgent, steps } from './support/model-server-script.ts'
import { startTestServer, type TestServer } from './support/served.ts'

const ROOT = path.resolve(import.meta.dirname, '..')

describe('the examples', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())

  test('the service triggers an agent with a signed webhook, and answers its tool call', async () => {
    const tool = {
      name: 'look_up_stock',
      description: 'Looks.',
      inputSchema: { type: 'object' },
      execution: 'EXTERNAL' as const,
    }
    const agent = await parley.agent('Keeper', { tools: [tool] })
    parley.models.reset()
    parley.models.script(
      forAgent('Keeper', steps([{ toolCall: 'look_up_stock', input: { item: 'tomatoes' } }], [{ text: 'ok' }])),
    )
    const admin = await parley.clientOf(parley.admin)
    const hook = `mutation ($id: ID!) { createWebhook(input: { agentId: $id, serviceName: "shop" }) { ... on CreateWebhookPayload { secret webhook { url } } } }`
    const made = await admin.ask<{ createWebhook: { secret: string; webhook: { url: string } } }>(hook, {
      id: agent.id,
    })
    const { secret = '', webhook } = made.data?.createWebhook ?? {}
    const grant = `mutation ($id: ID!) { createAccessToken(input: { grant: { service: { name: "shop", agentIds: [$id] } } }) { ... on CreateAccessTokenPayload { secret } } }`
    const token = await admin.ask<{ createAccessToken: { secret: string } }>(grant, { id: agent.id })
    const env = {
      PATH: process.env.PATH,
      PARLEY_URL: `${parley.origin}/graphql`,
      PARLEY_SERVICE_TOKEN: token.data?.createAccessToken.secret,
      WEBHOOK_URL: new URL(new URL(webhook?.url ?? '', parley.origin).pathname, parley.origin).href,
      WEBHOOK_SECRET: secret,
    }
    const { stdout } = await promisify(execFile)(process.execPath, ['examples/service/service.ts'], { cwd: ROOT, env })
    expect(stdout).toContain('answered look_up_stock: {"item":"tomatoes","left":3}')
  })

  test('the React app has fewer than 100 lines', () => {
    expect(readFileSync(path.join(ROOT, 'examples/react/app.tsx'), 'utf8').split('\n').length).toBeLessThan(100)
  })
})

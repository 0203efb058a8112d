import { exec, execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cp, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { startApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { createEmptyDatabase, hasPostgres } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import { skipFor } from '../support/skip-for.ts'
import { until } from '../support/until.ts'

const page = readFileSync(path.resolve(import.meta.dirname, '../../docs/moving.md'), 'utf8')
/** The commands as operators paste them from the page. */
const [dump = '', restore = ''] = [...page.matchAll(/^(pg_\w+ .*?)(?: +#.*)?$/gm)].map(([, command]) => command ?? '')
const hasTools = await promisify(execFile)('pg_dump', ['--version']).then(
  () => true,
  () => false,
)
if (!hasTools) skipFor('No program pg_dump on the PATH')

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

describe.runIf(hasPostgres && hasTools)('a backup by the commands of docs/moving.md', () => {
  test('contains the messages, keeps secrets readable, and lets runs resume from their journals', async () => {
    const held = Promise.withResolvers<void>()
    const parley = await startApplication({ stack: 'postgres' })
    closing.push(() => parley.close())
    closing.push(async () => held.resolve())
    let isOld = true
    parley.models.script((request) => {
      if (request.step > 0 && isOld) return [{ gate: held.promise }, { text: 'Too late.' }]
      return steps(
        [{ toolCall: 'set_goals', input: { goals: [{ description: 'Bake.' }] } }],
        [{ toolCall: 'send_message', input: { text: 'It is in the oven.' } }],
        [{ text: 'Done.' }],
      )(request)
    })
    const { human, agent, space } = await parley.room('Ada')
    const { secret } = await parley.app.domain.webhooks.create(parley.admin, { agentId: agent.id, serviceName: 'Jira' })
    const { runs } = await parley.send(human, space.id, 'A cake, please')
    const runId = runs[0]?.id ?? ''
    await until('its second step has begun', () => parley.models.requests.some(({ step }) => step === 1))

    const target = await createEmptyDatabase()
    closing.push(() => target.drop())
    const { config } = parley.app.platform
    const cwd = await makeScratchFolder('parley-backup-')
    closing.push(() => rm(cwd, { recursive: true, force: true }))
    const env = { ...process.env, DATABASE_URL: config.databaseUrl ?? '', NEW_DATABASE_URL: target.url }
    await promisify(exec)(dump, { cwd, env })
    await promisify(exec)(restore, { cwd, env })

    isOld = false
    const settings = { DATABASE_URL: target.url, OPENAI_BASE_URL: parley.models.baseUrl, OPENAI_API_KEY: 'sk-test' }
    const secretKey = { PARLEY_SECRET_KEY: config.secretKey ?? '', PARLEY_LOG_LEVEL: 'error' }
    const restored = await createApp(readConfig({ ...settings, ...secretKey, DATA_DIR: cwd }))
    closing.push(() => restored.close(0))
    const { prisma } = restored.platform.db
    // No process renews the lease, so it would end after ten seconds.
    await prisma.run.update({ where: { id: runId }, data: { leaseUntil: new Date(0) } })
    await restored.startWorker()
    const over = await until('the run has ended', () =>
      prisma.run.findFirst({ where: { id: runId, status: 'COMPLETED' } }),
    )
    expect(over.attempt).toBe(2)
    const messages = await prisma.message.findMany({ where: { spaceId: space.id }, orderBy: { seq: 'asc' } })
    expect(messages.map(({ parts }) => (parts as { text: string }[])[0]?.text)).toEqual([
      'A cake, please',
      'It is in the oven.',
    ])
    const webhook = await prisma.webhook.findFirstOrThrow({ where: { agentId: agent.id } })
    expect(restored.platform.secretBox.open(webhook.secretSealed, webhook.id)).toBe(secret)
  })
})

describe('a copy of DATA_DIR', () => {
  const ask = async ({ origin, adminToken }: ParleyProcess, query: string) => {
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const response = await fetch(`${origin}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query }) })
    return (await response.json()) as { data: Record<string, unknown> }
  }

  test('made while the embedded server is stopped is complete', async () => {
    const [from, to] = [await createTestDataDirectory(), await createTestDataDirectory()]
    closing.push(from.remove, to.remove)
    const first = await startParley({ settings: { DATA_DIR: from.path } })
    closing.push(() => first.kill())
    await ask(first, 'mutation { createHuman(input: { name: "Ada" }) { ... on CreateHumanPayload { human { id } } } }')
    await first.stop()
    await cp(from.path, to.path, { recursive: true })
    const second = await startParley({ settings: { DATA_DIR: to.path } })
    closing.push(() => second.kill())
    expect(await ask(second, '{ humans { edges { node { name } } } }')).toEqual({
      data: { humans: { edges: [{ node: { name: 'Ada' } }] } },
    })
    expect(await second.stop()).toBe(0)
  })
})

import { cp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import path from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import pg from 'pg'
import { expect, test } from 'vitest'
import { notifyColumns } from '../../src/agents/notify-secret.ts'
import { newId } from '../../src/lib/ids.ts'
import { applyMigrations } from '../../src/platform/migrate.ts'
import { startApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { createEmptyDatabase, hasPostgres } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import { until } from '../support/until.ts'

const MIGRATIONS = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** Returns the folders of the migrations before the given one. */
async function migrationsBefore(name: string): Promise<{ directory: string; remove(): Promise<void> }> {
  const directory = await makeScratchFolder('parley-migrations-')
  for (const folder of (await readdir(MIGRATIONS)).filter((folder) => folder < name))
    await cp(path.join(MIGRATIONS, folder), path.join(directory, folder), { recursive: true })
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) }
}

test('queued, running and answered runs from before claims were rows can be claimed after the upgrade', async () => {
  const before = await migrationsBefore('20261122101022_due_and_claims')
  await using pglite = await PGlite.create()
  await applyMigrations(pglite, before)
  const runs = ['QUEUED', 'RUNNING', 'WAITING_TOOL', 'COMPLETED'].map((status) => [status.toLowerCase(), status])
  for (const [id, status] of [...runs, ['answered', 'WAITING_TOOL']])
    await pglite.query(
      `INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", depth, "rootId", "jobId", "queuedAt")
       VALUES ($1, $1, $2::"RunStatus", 'SERVICE', '', 0, $1, 'job', now() - interval '1 hour')`,
      [id, status],
    )
  for (const [runId, status] of [
    ['waiting_tool', 'WAITING'],
    ['answered', 'DONE'],
  ])
    await pglite.query(
      `INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", status)
       VALUES ($1, $1, 'a', 0, 'c', 'ask', $2::"ToolCallStatus")`,
      [runId, status],
    )
  await applyMigrations(pglite)
  const { rows } = await pglite.query<{ id: string }>(
    'SELECT id FROM "Run" WHERE "claimableAt" <= now() AND "leaseUntil" IS NULL ORDER BY id',
  )
  expect(rows.map(({ id }) => id)).toEqual(['answered', 'queued', 'running'])
  await before.remove()
})

test('firings from before the list of firings existed are listed in order, and unfinished firings continue', async () => {
  const lifecycle = (await readdir(MIGRATIONS)).find((folder) => folder.endsWith('_lifecycle')) ?? ''
  const before = await migrationsBefore(lifecycle)
  await using pglite = await PGlite.create()
  await applyMigrations(pglite, before)
  for (const mind of ['STATELESS', 'PERSISTENT']) {
    await pglite.query(`INSERT INTO "Entity" (id, kind, name) VALUES ($1::text, 'AGENT', $1::text)`, [mind])
    await pglite.query(
      `INSERT INTO "Agent" (id, instructions, model, mind, toolset, "maxSteps", "maxConcurrentRuns")
       VALUES ($1::text, '', 'demo', $1::text::"Mind", 'ACTIVE_SPACE', 1, 1)`,
      [mind],
    )
    await pglite.query(
      `INSERT INTO "Plan" (id, "agentId", name, instruction) VALUES ($1::text, $1::text, $1::text, '')`,
      [mind],
    )
    for (const minute of [1, 2])
      await pglite.query(
        `INSERT INTO "PlanFiring" ("planId", slot, "rootId", "firedAt") VALUES ($1, $2::timestamptz, 'r', $2::timestamptz)`,
        [mind, `2026-01-01T00:0${minute}:00Z`],
      )
  }
  await pglite.query(
    `INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", depth, "rootId", attempt)
     VALUES ('r', 'STATELESS', 'RUNNING', 'SERVICE', '', 0, 'r', 1)`,
  )
  await applyMigrations(pglite)
  const { rows } = await pglite.query<{ id: string; planId: string; minute: number; result: string }>(
    `SELECT id, "planId", extract(minute FROM slot)::int AS minute, result FROM "PlanFiring" ORDER BY id`,
  )
  expect(rows.map(({ planId, minute, result }) => [planId, minute, result])).toEqual(
    expect.arrayContaining([
      ['STATELESS', 1, 'RUN'],
      ['STATELESS', 2, 'RUN'],
      ['PERSISTENT', 1, 'INBOX'],
      ['PERSISTENT', 2, 'INBOX'],
    ]),
  )
  expect(rows.map(({ minute }) => minute)).toEqual([1, 1, 2, 2])
  for (const { id } of rows) expect(id).toMatch(/^plf_[0-9a-f]{32}$/)
  const run = await pglite.query('SELECT status, attempt, "claimableAt" IS NOT NULL AS claimable FROM "Run"')
  expect(run.rows).toEqual([{ status: 'RUNNING', attempt: 1, claimable: true }])
  await before.remove()
})

test('usage from before the ledger is in it after the upgrade, at an unknown cost', async () => {
  const before = await migrationsBefore('20261122135950_usage_ledger')
  await using pglite = await PGlite.create()
  await applyMigrations(pglite, before)
  const runs = [
    ['run_paid', 'COMPLETED', 100, 'openai:gpt-5-mini'],
    ['run_demo', 'COMPLETED', 7, 'demo'],
    ['run_queued', 'QUEUED', 0, null],
  ] as const
  for (const [id, status, tokens, model] of runs) {
    await pglite.query(
      `INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", "triggerSpaceId", depth, "rootId", "inputTokens", "startedAt")
       VALUES ($1, 'agt_1', $2::"RunStatus", 'SPACE_MESSAGE', '', 'spc_1', 0, 'msg_1', $3, '2026-01-02T23:30:00Z')`,
      [id, status, tokens],
    )
    if (model !== null)
      await pglite.query(
        `INSERT INTO "Step" (id, "runId", index, model, "messagesKept", "messagesAdded", assistant, "startedAt")
         VALUES ($1, $1, 0, $2, 0, '[]', '{}', now())`,
        [id, model],
      )
  }
  await applyMigrations(pglite)
  const { rows } = await pglite.query('SELECT id, "costNanos" FROM "Run" ORDER BY id')
  expect(rows).toEqual([
    { id: 'run_demo', costNanos: 0 },
    { id: 'run_paid', costNanos: null },
    { id: 'run_queued', costNanos: 0 },
  ])
  const { rows: days } = await pglite.query(
    `SELECT day::text, "agentId", "spaceId", model, runs, "inputTokens", "isUnpriced" FROM "DailyUsage" ORDER BY model`,
  )
  const row = { day: '2026-01-02', agentId: 'agt_1', spaceId: 'spc_1', runs: 1 }
  expect(days).toEqual([
    { ...row, model: 'demo', inputTokens: 7, isUnpriced: false },
    { ...row, model: 'openai:gpt-5-mini', inputTokens: 100, isUnpriced: true },
  ])
  const { rows: roots } = await pglite.query('SELECT "rootId", "inputTokens", "isUnpriced" FROM "RootUsage"')
  expect(roots).toEqual([{ rootId: 'msg_1', inputTokens: 107, isUnpriced: true }])
  await before.remove()
})

/** A run that was RUNNING before the migration `operating it`, with one step in the journal and a dead worker. */
async function insertRunningRun(client: pg.Client): Promise<{ runId: string; spaceId: string }> {
  const [human, agent, space, message, run, call] = [
    newId('hum'),
    newId('agt'),
    newId('spc'),
    newId('msg'),
    newId('run'),
    newId('tcl'),
  ]
  const insert = (sql: string, ...values: unknown[]) => client.query(`INSERT INTO ${sql}`, values)
  for (const [id, kind] of [
    [human, 'HUMAN'],
    [agent, 'AGENT'],
  ])
    await insert('"Entity" (id, kind, name) VALUES ($1, $2::"EntityKind", $1)', id, kind)
  await insert(
    `"Agent" (id, instructions, model, mind, toolset, "maxSteps", "maxConcurrentRuns")
     VALUES ($1, 'Bake.', 'openai.chat:test', 'STATELESS', 'ACTIVE_SPACE', 10, 5)`,
    agent,
  )
  await insert(`"Space" (id, name, routing, "lastSeq") VALUES ($1, 'Kitchen', 'BROADCAST', 1)`, space)
  for (const id of [human, agent]) await insert('"Membership" ("spaceId", "entityId") VALUES ($1, $2)', space, id)
  await insert(
    `"Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt")
     VALUES ($1, $2, 1, $3, 'COMPLETE', '[{"type":"text","text":"A cake, please"}]', $1, 0, now())`,
    ...[message, space, human],
  )
  await insert(
    `"Run" (id, "agentId", status, attempt, "triggerType", "triggerSpaceId", "triggerMessageId", "triggerSenderId", "triggerSummary",
       "activeSpaceId", "enteredSeq", "stepCount", "inputTokens", depth, "rootId", "startedAt", "claimableAt", "leaseUntil")
     VALUES ($1, $2, 'RUNNING', 1, 'SPACE_MESSAGE', $3, $4, $5, 'A cake', $3, 1, 1, 100, 0, $4, now(), NULL, now())`,
    ...[run, agent, space, message, human],
  )
  const made = {
    role: 'assistant',
    content: [{ type: 'tool-call', toolCallId: 'call_1', toolName: 'set_goals', input: { goals: [] } }],
  }
  await insert(
    `"Step" (id, "runId", index, model, instructions, "messagesKept", "messagesAdded", "activeTools", assistant, "finishReason", "startedAt")
     VALUES ($1, $2, 0, 'openai.chat:test', 'Bake.', 0, '[{"role":"user","content":"A cake, please"}]', '{set_goals,send_message}', $3,
       'tool-calls', now())`,
    ...[newId('stp'), run, JSON.stringify(made)],
  )
  await insert(
    `"ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, output, "settledAt")
     VALUES ($1, $2, $3, 0, 'call_1', 'set_goals', 'INTERNAL', 'DONE', '{"goals":[]}', '{"goals":[]}', now())`,
    ...[call, run, agent],
  )
  return { runId: run, spaceId: space }
}

test.runIf(hasPostgres)('a running run continues after the upgrade that adds budgets and outcomes', async () => {
  const lifecycle = (await readdir(MIGRATIONS)).find((folder) => folder.endsWith('_lifecycle')) ?? ''
  const before = await migrationsBefore(lifecycle)
  const database = await createEmptyDatabase()
  const client = new pg.Client(database.url)
  await client.connect()
  await applyMigrations({ exec: (sql) => client.query(sql), query: (sql) => client.query(sql) }, before)
  const { runId, spaceId } = await insertRunningRun(client)
  await client.end()
  const parley = await startApplication({
    stack: 'postgres',
    worker: false,
    settings: { DATABASE_URL: database.url },
  })
  parley.models.script(
    steps(
      [{ error: 'was asked before' }],
      [{ toolCall: 'send_message', input: { text: 'It is in the oven.' } }],
      [{ text: 'Done.' }],
    ),
  )
  await parley.app.startWorker()
  expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', attempt: 2, stepCount: 3 })
  expect(parley.models.requests.map(({ step }) => step)).toEqual([1, 2])
  const said = (await parley.messages(spaceId)).map(({ parts }) => (parts as { text?: string }[])[0]?.text)
  expect(said).toEqual(['A cake, please', 'It is in the oven.'])
  await parley.close()
  await database.drop()
  await before.remove()
})

test.runIf(hasPostgres)('plans and notices that wait for a version with its own queues are not lost', async () => {
  const got: string[] = []
  const receiver = createServer((request, response) => {
    got.push(String(request.headers['webhook-id']))
    request.resume().on('end', () => response.writeHead(204).end())
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const parley = await startApplication({ stack: 'postgres', worker: false })
  parley.models.script(steps([{ text: 'Done.' }], [{ text: 'Done.' }]))
  const { prisma } = parley.app.platform.db
  const agent = await parley.agent('Reporter')
  const [due, later] = await parley.app.domain.plans.setOwn(agent.id, [
    { name: 'Due', instruction: 'Go.', afterSeconds: 60 },
    { name: 'Later', instruction: 'Go.', afterSeconds: 3600 },
  ])
  // The rows as the previous version left them: jobs in a queue of their own, and notifications in a table.
  await prisma.$executeRaw`DELETE FROM pgboss.job`
  await prisma.$executeRaw`SELECT pgboss.create_queue('wake-ups', '{"policy":"standard"}'::jsonb)`
  await prisma.$executeRaw`
    INSERT INTO pgboss.job (name, data, start_after) SELECT 'wake-ups', jsonb_build_object('type', 'plan', 'planId', id), "nextRunAt" FROM "Plan"`
  await prisma.plan.update({ where: { id: due?.id ?? '' }, data: { nextRunAt: new Date() } })
  const { port } = receiver.address() as { port: number }
  await prisma.agent.update({
    where: { id: agent.id },
    data: notifyColumns(agent.id, `http://127.0.0.1:${port}/`, parley.app.platform.secretBox).columns,
  })
  for (const id of ['ntf_1', 'ntf_2', 'ntf_3'])
    await prisma.notification.create({ data: { id, agentId: agent.id, toolCallId: 'tcl_1', body: '{}' } })

  await parley.app.startWorker()
  await until('the notifications are sent', () => got.length === 3)
  expect(got).toEqual(['ntf_1', 'ntf_2', 'ntf_3'])
  expect(await prisma.notification.count()).toBe(0)
  await until('the plan has fired', async () => (await prisma.planFiring.count()) === 1)
  expect(await prisma.planFiring.findFirst()).toMatchObject({ planId: due?.id })
  // The job of a plan that is due later is enqueued in time.
  await prisma.plan.update({ where: { id: later?.id ?? '' }, data: { nextRunAt: new Date(Date.now() + 30_000) } })
  await parley.app.stopWorker(0)
  await prisma.$executeRaw`UPDATE pgboss.job SET singleton_on = singleton_on - interval '1 hour'`
  await parley.app.startWorker()
  await until('it has a job', async () => {
    const jobs = await prisma.$queryRaw<
      unknown[]
    >`SELECT 1 FROM pgboss.job WHERE data->>'planId' = ${later?.id} AND state = 'created'`
    return jobs.length === 1
  })
  await parley.close()
  receiver.close()
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelRequest, steps } from '../support/model-server-script.ts'
import { type Thinking, thinkingOn } from '../support/thinking.ts'

/** Returns the result of the last tool call, as the model receives it. */
const lastResult = ({ messages }: ModelRequest) =>
  JSON.parse(messages.findLast(({ role }) => role === 'tool')?.text ?? 'null')

describe.each(RULE_STACKS)('the tool calls of an agent whose worker loses the database, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    thinking = thinkingOn(parley)
    await failJournalOnce()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const db = () => parley.app.platform.db.prisma

  /** When the result of a call in `deaths` is journaled for the first time, the database breaks the connection. */
  async function failJournalOnce() {
    await db().$executeRawUnsafe('CREATE TABLE deaths ("toolName" text PRIMARY KEY)')
    await db().$executeRawUnsafe('CREATE SEQUENCE died')
    await db().$executeRawUnsafe(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.status = 'DONE' AND EXISTS (SELECT 1 FROM deaths d WHERE d."toolName" = NEW."toolName") AND nextval('died') = 1
      THEN RAISE EXCEPTION 'the database system is shutting down' USING ERRCODE = 'admin_shutdown'; END IF; RETURN NEW; END $$`)
    await db().$executeRawUnsafe('CREATE TRIGGER die BEFORE UPDATE ON "ToolCall" FOR EACH ROW EXECUTE FUNCTION die()')
  }

  async function dieBeforeJournaling(toolName: string) {
    await db().$executeRawUnsafe('DELETE FROM deaths')
    await db().$executeRawUnsafe(`INSERT INTO deaths VALUES ('${toolName}')`)
    await db().$executeRawUnsafe("SELECT setval('died', 1, false)")
  }

  /** Makes one call in a run whose worker loses the database after the work of the tool and before the journal. */
  async function callOnce(agent: { id: string }, toolCall: string, input: object) {
    const human = await parley.human('Husam')
    const space = await parley.space(human, [agent.id])
    parley.models.reset()
    parley.models.script(steps([{ toolCall, input }]))
    await dieBeforeJournaling(toolCall)
    const { runs } = await parley.send(human, space.id, 'Take note')
    await thinking.rest(agent)
    const [run] = runs.length > 0 ? runs : await thinking.runsOf(agent)
    expect(await parley.runWhen(run?.id ?? '')).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    return lastResult(parley.models.requests.at(-1) as ModelRequest)
  }

  const { STATELESS, PERSISTENT } = { STATELESS: 'STATELESS', PERSISTENT: 'PERSISTENT' } as const

  test.each([STATELESS, PERSISTENT])('a %s agent sets a goal once', async (mind) => {
    const agent = await parley.agent('Ada', { mind })
    const result = await callOnce(agent, 'set_goals', { goals: [{ description: 'Ship it.' }] })
    const goals = await db().goal.findMany({ where: { agentId: agent.id } })
    expect(goals.map(({ description }) => description)).toEqual(['Ship it.'])
    expect(result).toMatchObject({ success: true, goals: [{ id: goals[0]?.id }] })
  })

  test('a plan is due the given time after the successful call, and has one job', async () => {
    const agent = await parley.agent('Ada')
    const plans = [{ name: 'Look again', instruction: 'Look.', afterSeconds: 3600 }]
    const result = await callOnce(agent, 'set_plans', { plans })
    const [plan, ...others] = await db().plan.findMany({ where: { agentId: agent.id } })
    expect(others).toEqual([])
    expect(result.plans).toMatchObject([{ id: plan?.id, nextRunAt: plan?.nextRunAt?.toISOString() }])
    const jobs = await db().$queryRaw<unknown[]>`SELECT 1 FROM pgboss.job WHERE data->>'planId' = ${plan?.id}`
    expect(jobs).toHaveLength(1)
  })

  test('removed objects are returned as removed', async () => {
    const agent = await parley.agent('Ada')
    const [goal] = await parley.app.domain.goals.set(agent.id, [{ description: 'Rest.' }])
    await parley.app.domain.memories.set(agent.id, [{ key: 'city', value: 'Paris' }])
    await parley.app.domain.plans.setOwn(agent.id, [{ name: 'Report', instruction: 'Write.', afterSeconds: 3600 }])
    expect(await callOnce(agent, 'delete_goals', { ids: [goal?.id] })).toMatchObject({ deleted: [goal?.id] })
    expect(await callOnce(agent, 'delete_memories', { keys: ['city'] })).toMatchObject({ deleted: ['city'] })
    expect(await callOnce(agent, 'delete_plans', { names: ['Report'] })).toMatchObject({ deleted: ['Report'] })
  })

  test('a run that the agent stopped is returned as stopped', async () => {
    const agent = await parley.agent('Ada')
    const human = await parley.human('Husam')
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ hang: true }])
    const { runs } = await parley.send(human, space.id, 'Take your time')
    const runId = runs[0]?.id ?? ''
    // RUNNING is not enough, because the run's request comes later, and would get the script of the next run.
    await parley.models.request(() => true)
    expect(await callOnce(agent, 'stop_run', { runId })).toEqual({ success: true, runId, status: 'canceled' })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'CANCELED' })
  })

  test('a refusal of the domain is a result, and the call writes nothing', async () => {
    const agent = await parley.agent('Ada')
    const human = await parley.human('Husam')
    const space = await parley.space(human, [agent.id])
    const goals = [{ description: 'Good.' }, { id: 'gol_none', status: 'completed' }]
    parley.models.script(steps([{ toolCall: 'set_goals', input: { goals } }]))
    const { runs } = await parley.send(human, space.id, 'Take note')
    await parley.runWhen(runs[0]?.id ?? '')
    expect(lastResult(parley.models.requests.at(-1) as ModelRequest)).toMatchObject({ error: { code: 'NOT_FOUND' } })
    expect(await db().goal.count({ where: { agentId: agent.id } })).toBe(0)
    expect(await parley.eventsOf(runs[0]?.id ?? '')).toContain('RunToolReturned')
  })
})

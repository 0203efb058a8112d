import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { agentChannel, type SignalPayload } from '../../src/broker/topics.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const FRAGMENTS = `fragment Activity on AgentActivity { runs { ...Asked } }
  fragment Asked on Run { id more: stepCount status @skip(if: $no) }`
function activityOf(fields: string): string {
  const hasFragments = fields.includes('...Activity')
  const variables = hasFragments || fields.includes('$no') ? ', $no: Boolean = false' : ''
  return `subscription ($spaceId: ID!${variables}) { agentActivity(spaceId: $spaceId) { active ${fields} } }
    ${hasFragments ? FRAGMENTS : ''}`
}
interface TheRun {
  id: string
  status?: string
  more?: number
  triggerSummary?: string
}
type Activity = { agentActivity: { active: boolean; runs: TheRun[] } }
/** Matches the statements that read an agent's unfinished runs, and their visibility. */
const LOOKS = /^\s*SELECT [^()]* FROM "Run" WHERE .*status IN \('QUEUED'|AS run\("humanId"/s

describe.skipIf(!hasPostgres)('a subscriber to the activity of agents', () => {
  let parley: TestServer
  const statements: string[] = []
  const { query } = pg.Client.prototype

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres' })
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [given] = args as [string | { text?: string }]
      statements.push(typeof given === 'string' ? given : (given.text ?? ''))
      return query.apply(this, args as never)
    } as never
  })
  afterAll(async () => {
    pg.Client.prototype.query = query
    await parley?.close()
  })

  async function threeWhoWatch(fields: string, tools: object[] = []) {
    const people = await Promise.all(['Ada', 'Bob', 'Cyd'].map((name) => parley.human(name)))
    const agent = await parley.agent('Agent', { tools } as never)
    const space = await parley.space(people[0]!, [agent.id])
    for (const { id } of people.slice(1))
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: id })
    const lives = await Promise.all(
      people.map(async (human) =>
        (await parley.clientOf(human)).subscribe<Activity, object>(activityOf(fields), { spaceId: space.id }),
      ),
    )
    await Promise.all(lives.map((live) => live.first(() => true)))
    parley.models.reset()
    statements.length = 0
    return { ada: people[0]!, agent, space, lives }
  }

  /** Three humans follow a run from its start to its end. Returns how often the database was read for the agent's activity. */
  async function watchARun(fields: string): Promise<{ looks: number; running: TheRun | undefined; told: number[] }> {
    const { ada, space, lives } = await threeWhoWatch(fields)
    const gate = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate: gate.promise }, { text: 'Hello.' }]))
    const { runs } = await parley.send(ada, space.id, 'Hello')
    const isActive = ({ agentActivity }: Activity) => agentActivity.active && agentActivity.runs.length === 1
    await Promise.all(lives.map((live) => live.first(isActive)))
    gate.resolve()
    await parley.runWhen(runs[0]?.id ?? '')
    const isQuiet = ({ agentActivity }: Activity) => !agentActivity.active && agentActivity.runs.length === 0
    await until('all saw its end', () => lives.every(({ seen }) => isQuiet(seen.at(-1)!)))
    const looks = statements.filter((text) => LOOKS.test(text)).length
    for (const live of lives) live.stop()
    const told = lives.map(({ seen }) => seen.length)
    return { looks, told, running: lives[0]!.seen.findLast(isActive)?.agentActivity.runs[0] }
  }
  /** Allow one read, because the periodic recheck of all followed agents may happen at that time. */
  const MOST_LOOKS = 1

  test.each([
    'runs { __typename id agent { id } status triggerType triggerSummary queuedAt startedAt }',
    'runs { id more: stepCount @include(if: $no) }',
  ])('gets the content of each event, without a lookup: %s', async (fields) => {
    const { looks, running } = await watchARun(fields)
    expect(looks).toBeLessThanOrEqual(MOST_LOOKS)
    expect(running?.id).toMatch(/^run_/)
    if (fields.includes('triggerSummary'))
      expect(running).toEqual({
        __typename: 'Run',
        id: running?.id,
        agent: { id: expect.stringMatching(/^agt_/) },
        status: 'RUNNING',
        triggerType: 'SPACE_MESSAGE',
        triggerSummary: expect.stringContaining('Hello'),
        queuedAt: expect.stringMatching(/^2/),
        startedAt: expect.stringMatching(/^2/),
      })
  })

  test.each([
    'runs { id } runs { more: stepCount }',
    'runs { id ... on Node { ... on Run { more: stepCount } } }',
    '...Activity',
  ])('gets the current rows if it selects more: %s', async (fields) => {
    const { looks, running } = await watchARun(fields)
    expect(running).toMatchObject({ id: expect.stringMatching(/^run_/), more: 0 })
    expect(looks).toBeGreaterThan(MOST_LOOKS)
  })

  test('shares its payload with all subscribers that have the same selection', async () => {
    const agentsRead = vi.spyOn(parley.app.domain.entities, 'getMany')
    const { running, told } = await watchARun('agent { name } runs { id status }')
    expect(running?.status).toBe('RUNNING')
    // Allow lookups for two thirds of the payloads, because some subscribers can receive one event for two changes where others
    // receive two events.
    const answers = told.reduce((sum, count) => sum + count)
    expect(agentsRead.mock.calls.length).toBeLessThanOrEqual((answers * 2) / 3)
  })

  test('gets no further data of a human who was erased while the event waited', async () => {
    const ask = { name: 'ask', description: 'Asks', inputSchema: { type: 'object' }, execution: 'EXTERNAL' as const }
    const { ada, agent, space, lives } = await threeWhoWatch('runs { id status triggerSummary }', [ask])
    const told: SignalPayload[] = []
    const leave = await parley.app.platform.signals.subscribe(agentChannel(agent.id), (signal) => told.push(signal))
    parley.models.script(steps([{ toolCall: 'ask', input: {} }], [{ text: 'Thanks.' }]))
    const { runs } = await parley.send(ada, space.id, 'My secret')
    const bobs = lives[1]!
    const waiting = await bobs.first(({ agentActivity }) => agentActivity.runs[0]?.status === 'WAITING_TOOL')
    expect(waiting.agentActivity.runs[0]?.triggerSummary).toContain('My secret')
    const erase = `mutation ($id: ID!) { eraseHuman(input: { id: $id, messages: true }) { __typename } }`
    const answer = await (await parley.clientOf(parley.admin)).ask(erase, { id: ada.id })
    expect(answer.data).toEqual({ eraseHuman: { __typename: 'EraseHumanPayload' } })
    // The events do not wait for the recheck.
    await until('the event arrives at once', () => told.some((signal) => signal.type === 'run-changed' && !signal.run))
    leave()
    await bobs.first(({ agentActivity }) => agentActivity.runs[0]?.triggerSummary === 'Erased in a space')
    await parley.app.domain.control.stopRun(parley.admin, { runId: runs[0]?.id ?? '', cascade: false })
    await until('the end of the run is delivered', () => bobs.seen.at(-1)?.agentActivity.runs.length === 0)
    const afterwards = bobs.seen.slice(
      bobs.seen.findIndex(({ agentActivity: { runs } }) => /Erased/.test(JSON.stringify(runs))),
    )
    expect(JSON.stringify(afterwards)).not.toContain('secret')
    for (const live of lives) live.stop()
  })
})

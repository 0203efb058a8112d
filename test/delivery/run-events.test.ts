import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const RUN_EVENTS = `
  subscription RunEvents($runId: ID!, $after: StreamCursor) {
    runEvents(runId: $runId, after: $after) {
      __typename cursor at runId
      ... on RunStarted { run { id status } }
      ... on RunCompleted { run { id status summary } }
      ... on RunFailed { run { id status } error }
      ... on RunCanceled { run { id status } }
      ... on RunSnapshot { run { id status } }
      ... on RunStepFinished { step usage { inputTokens outputTokens totalTokens estimated } }
      ... on RunTextDelta { step delta }
      ... on RunToolInputDelta { toolName delta }
      ... on RunToolCalled { toolCall { id toolName status input } }
      ... on RunToolReturned { toolCall { id status output } }
      ... on RunSpaceEntered { spaceId space { id } }
    }
  }`

interface Event {
  __typename: string
  cursor: string
  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  [field: string]: any
}
type Data = { runEvents: Event }
const is = (type: string) => (data: Data) => data.runEvents.__typename === type
const typesOf = (seen: Data[]) => seen.map(({ runEvents }) => runEvents.__typename)
const isDelta = (type: string) => type.endsWith('Delta')

describe.each(RULE_STACKS)('runEvents on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function watch(viewer: Viewer, variables: { runId: string; after?: string }) {
    return (await parley.clientOf(viewer)).subscribe<Data, object>(RUN_EVENTS, variables)
  }

  /** Starts a run that waits for the test. */
  async function begunRun(name: string) {
    const gate = Promise.withResolvers<void>()
    const agent = await parley.agent(name)
    const human = await parley.human('Ada')
    const space = await parley.space(human, [agent.id])
    const say = { toolCall: 'send_message', input: { text: 'Hello!' } }
    parley.models.script(forAgent(name, steps([{ gate: gate.promise }, say], [{ text: 'I greeted.' }])))
    const { runs } = await parley.send(human, space.id, 'Hi')
    const runId = runs[0]?.id ?? ''
    await parley.runWhen(runId, 'RUNNING')
    return { human, space, agent, runId, goOn: gate.resolve }
  }

  test('publishes a run from its start to its one end, then completes', async () => {
    const { human, runId, goOn } = await begunRun('One')
    const live = await watch(human, { runId })
    expect((await live.first(() => true)).runEvents).toMatchObject({ __typename: 'RunStarted', run: { id: runId } })
    goOn()
    expect(await live.ended).toBeNull()
    expect(typesOf(live.seen)).toEqual([
      'RunStarted',
      'RunToolCalled',
      'RunToolReturned',
      'RunStepFinished',
      'RunStepFinished',
      'RunCompleted',
    ])
    expect(live.seen.at(-1)?.runEvents['run']).toEqual({ id: runId, status: 'COMPLETED', summary: null })
  })

  test('shows the reasoning of the agent only to admins', async () => {
    const { human, runId, goOn } = await begunRun('Two')
    const forHuman = await watch(human, { runId })
    const forAdmin = await watch(parley.admin, { runId })
    goOn()
    await Promise.all([forHuman.ended, forAdmin.ended])
    expect(typesOf(forHuman.seen).filter(isDelta)).toEqual([])
    const text = forAdmin.seen.filter(is('RunTextDelta')).map(({ runEvents }) => runEvents['delta'])
    expect(text.join('')).toBe('I greeted.')
    expect(typesOf(forAdmin.seen)).toContain('RunToolInputDelta')
    expect(forAdmin.seen.at(-1)?.runEvents['run'].summary).toBe('I greeted.')
  })

  test('a late client gets all events, a resuming client what it missed, and one that saw the end gets nothing', async () => {
    const { human, runId, goOn } = await begunRun('Three')
    goOn()
    await parley.runWhen(runId)
    const whole = await watch(human, { runId })
    expect(await whole.ended).toBeNull()
    expect(typesOf(whole.seen).at(-1)).toBe('RunCompleted')
    const cursors = whole.seen.map(({ runEvents }) => runEvents.cursor)
    for (const [index, after] of cursors.entries()) {
      const resumed = await watch(human, { runId, after })
      expect(await resumed.ended).toBeNull()
      expect(resumed.seen.map(({ runEvents }) => runEvents.cursor)).toEqual(cursors.slice(index + 1))
    }
  })

  test('streamCursor of a run resumes at the time of the query', async () => {
    const { human, runId, goOn } = await begunRun('Cursor')
    const client = await parley.clientOf(human)
    const { data } = await client.ask<{ run: { streamCursor: string } }>(
      'query ($id: ID!) { run(id: $id) { streamCursor status } }',
      { id: runId },
    )
    const live = await watch(human, { runId, after: data?.run.streamCursor ?? '' })
    goOn()
    expect(await live.ended).toBeNull()
    expect(typesOf(live.seen)[0]).toBe('RunToolCalled')
    expect(typesOf(live.seen).at(-1)).toBe('RunCompleted')
  })

  test('a run that was stopped before it started ends at once', async () => {
    const human = await parley.human('Ada')
    const agent = await parley.agent('Never')
    const space = await parley.space(human, [agent.id])
    const { prisma } = parley.app.platform.db
    const row = { triggerType: 'SPACE_MESSAGE' as const, triggerSpaceId: space.id, triggerSummary: '', depth: 0 }
    const id = newId('run')
    const claimableAt = new Date(Date.now() + 3_600_000)
    await prisma.run.create({ data: { id, agentId: agent.id, status: 'QUEUED', rootId: id, claimableAt, ...row } })
    const live = await watch(human, { runId: id })
    await parley.app.domain.control.stopRun(human, { runId: id, cascade: false })
    expect(await live.ended).toBeNull()
    expect(typesOf(live.seen)).toEqual(['RunCanceled'])
    const late = await watch(human, { runId: id })
    expect(await late.ended).toBeNull()
    expect(typesOf(late.seen)).toEqual(['RunCanceled'])
  })

  test('a run whose log was deleted is summarised, and the stream completes', async () => {
    const { human, runId, goOn } = await begunRun('Four')
    goOn()
    await parley.runWhen(runId)
    const whole = await watch(human, { runId })
    await whole.ended
    const { cursor } = whole.seen[0]?.runEvents ?? { cursor: '' }
    await parley.app.platform.log.expire(`run:${runId}`, 0)
    await until('the log has removed the topic', async () => {
      const [head = ''] = await parley.app.platform.log.heads([`run:${runId}`])
      return head !== whole.seen.at(-1)?.runEvents.cursor
    })
    const late = await watch(human, { runId })
    expect(await late.ended).toBeNull()
    expect(typesOf(late.seen)).toEqual(typesOf(whole.seen))
    const byAdmin = await watch(parley.admin, { runId })
    expect(await byAdmin.ended).toBeNull()
    expect(byAdmin.seen.filter(is('RunTextDelta'))).toMatchObject([{ runEvents: { step: 1, delta: 'I greeted.' } }])
    const resumed = await watch(human, { runId, after: cursor })
    expect(await resumed.ended).toBeNull()
    expect(typesOf(resumed.seen)).toEqual(['RunSnapshot', 'RunCompleted'])
  })

  test('an invisible run is NOT_FOUND; an invalid cursor is BAD_USER_INPUT', async () => {
    const { human, runId, goOn } = await begunRun('Five')
    const stranger = await parley.human('Eve')
    const foreign = await watch(stranger, { runId })
    expect(await foreign.ended).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }])
    const none = await watch(parley.admin, { runId: newId('run') })
    expect(await none.ended).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }])
    const bad = await watch(human, { runId, after: 'nonsense' })
    expect(await bad.ended).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT' } }])
    goOn()
  })

  test('ends with FORBIDDEN when the viewer leaves the space that showed it the run', async () => {
    const { human, space, runId, goOn } = await begunRun('Six')
    const live = await watch(human, { runId })
    await live.first(is('RunStarted'))
    await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
    expect(await live.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    goOn()
  })

  test('a stopped run ends with RunCanceled and nothing after it', async () => {
    const { human, runId, goOn } = await begunRun('Seven')
    const live = await watch(human, { runId })
    await live.first(is('RunStarted'))
    const client = await parley.clientOf(human)
    const { data } = await client.ask<{ stopRun: { run: { status: string } } }>(
      'mutation ($input: StopRunInput!) { stopRun(input: $input) { ... on StopRunPayload { run { status } } } }',
      { input: { runId } },
    )
    expect(data?.stopRun.run.status).toBe('CANCELED')
    expect(await live.ended).toBeNull()
    expect(typesOf(live.seen).at(-1)).toBe('RunCanceled')
    goOn()
  })
})

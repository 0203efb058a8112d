import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, type ModelAction, type ModelScript, steps } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const RUN = `query ($id: ID!) { run(id: $id) { status stopReason error stoppedBy { id } parent { id } retryOf { id } retriedBy { id }
  children(first: 10) { edges { node { id } } pageInfo { hasNextPage } } triggerMessage { outcomes { kind error run { id } } } } }`
const RUNS = `query ($filter: RunFilter, $first: Int, $after: String) { runs(filter: $filter, first: $first, after: $after) {
  edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage } } }`
const STOP = `mutation ($input: StopRunInput!) { stopRun(input: $input) { __typename
  ... on Error { message } ... on StopRunPayload { run { id status } stoppedRuns { id } } } }`
const RETRY = `mutation ($input: RetryRunInput!) { retryRun(input: $input) { __typename
  ... on Error { message } ... on RetryRunPayload { run { id status depth retryOf { id } } } } }`

const note = (key: string): ModelAction => ({
  toolCall: 'set_memories',
  input: { memories: [{ key, value: 'something' }] },
})
const refused: ModelScript = () => [{ error: 'No such key.\nAsk your administrator.', status: 401 }]

describe.each(RULE_STACKS)('why a run ended, on the %s stack', (stack) => {
  let parley: TestServer
  let human: HumanViewer
  let client: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_MAX_ROOT_RUNS: '4' } })
    human = await parley.human('Husam')
    client = await parley.clientOf(human)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  // biome-ignore lint/suspicious/noExplicitAny: these operations have no generated types
  async function ask(operation: string, variables: object, who = client): Promise<any> {
    const { data, errors } = await who.ask(operation, variables)
    expect(errors).toBeUndefined()
    return data
  }
  const runOf = async (id: string, who = client) => (await ask(RUN, { id }, who)).run

  async function asked(script: ModelScript, input: Partial<CreateAgentInput> = {}) {
    const agent = await parley.agent('Ada', input)
    const space = await parley.space(human, [agent.id])
    parley.models.script(script)
    const { message, runs } = await parley.send(human, space.id, 'Go')
    return { agent, space, message, runId: runs[0]?.id ?? '' }
  }

  test.each<[string, ModelScript, Partial<CreateAgentInput>]>([
    ['FINISHED', () => [{ text: 'Done.' }], {}],
    ['MAX_STEPS', () => [note('a')], { maxSteps: 2 }],
    ['MAX_TOOL_CALLS', () => [note('a'), note('b')], { maxToolCalls: 3 }],
    ['TOKEN_BUDGET', () => [note('a'), { usage: { inputTokens: 10, outputTokens: 900 } }], { tokenBudget: 500 }],
  ])('%s: the run ended on its own', async (stopReason, script, input) => {
    const { runId } = await asked(script, input)
    await parley.runWhen(runId)
    expect(await runOf(runId)).toMatchObject({ status: 'COMPLETED', stopReason, stoppedBy: null })
  })

  test('calls beyond the maximum of a run are not executed, and the model gets an error', async () => {
    const { agent, runId } = await asked(() => [note('a'), note('b'), note('c')], { maxToolCalls: 2 })
    await parley.runWhen(runId)
    const memories = await parley.app.domain.memories.listMany([agent.id])
    expect(memories.get(agent.id)?.map(({ key }) => key)).toEqual(['a', 'b'])
    const calls = (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    expect(calls.map(({ status }) => status)).toEqual(['DONE', 'DONE', 'FAILED'])
    expect(calls[2]?.output).toMatchObject({ error: { code: 'TOO_MANY_CALLS' } })
    expect((await parley.eventsOf(runId)).filter((type) => type === 'RunToolReturned')).toHaveLength(3)
  })

  test('by default an agent has five calls for each step', async () => {
    const agent = await parley.agent('Eve', { maxSteps: 3 })
    const admin = await parley.clientOf(parley.admin)
    const query = 'query ($id: ID!) { agent(id: $id) { internals { maxToolCalls } } }'
    expect((await ask(query, { id: agent.id }, admin)).agent.internals.maxToolCalls).toBe(15)
  })

  test('MODEL_FAILED: members see the status and what they can do; admins see the first line of the reason', async () => {
    const { runId } = await asked(refused)
    await parley.runWhen(runId)
    const { status, stopReason, triggerMessage } = await runOf(runId)
    expect({ status, stopReason }).toEqual({ status: 'FAILED', stopReason: 'MODEL_FAILED' })
    const [outcome] = triggerMessage.outcomes
    expect(outcome).toEqual({
      kind: 'FAILED',
      error: expect.stringMatching(/did not accept .* key/),
      run: { id: runId },
    })
    const admin = await parley.clientOf(parley.admin)
    const forAdmins = (await ask(RUN, { id: runId }, admin)).run.triggerMessage.outcomes
    expect(forAdmins).toEqual([{ ...outcome, error: 'No such key.' }])
  })

  test('STOPPED: the human who stopped it, and the other stopped runs', async () => {
    const { runId } = await asked(() => [{ hang: true }])
    const { stopRun } = await ask(STOP, { input: { runId } })
    expect(stopRun).toMatchObject({ run: { id: runId, status: 'CANCELED' }, stoppedRuns: [{ id: runId }] })
    expect(await runOf(runId)).toMatchObject({ stopReason: 'STOPPED', stoppedBy: { id: human.id } })
    const again = await ask(STOP, { input: { runId, cascade: true } })
    expect(again.stopRun.__typename).toBe('ConflictError')
  })

  test.each([
    ['ADMIN', 'delegateToAgent'],
    ['MENTION_CHAIN', 'delegate'],
  ] as const)('HANDED_ON under %s: only by the run itself, and its followers are notified', async (routing, tool) => {
    const [ada, bea] = [await parley.agent('Ada'), await parley.agent('Bea')]
    const adminAgentId = routing === 'ADMIN' ? ada.id : null
    const space = await parley.space(human, [ada.id, bea.id], { routing, adminAgentId })
    parley.models.script(() => [{ text: 'Seen.' }])
    const input = { targetAgentEntityId: bea.id, reason: 'It is hers.' }
    parley.models.script(forAgent('Ada', steps([{ toolCall: tool, input }])))
    const { runs } = await parley.send(human, space.id, 'Go')
    const runId = runs[0]?.id ?? ''
    await parley.runWhen(runId)
    const ended = await runOf(runId)
    expect(ended).toMatchObject({ status: 'CANCELED', stopReason: 'HANDED_ON', stoppedBy: null, error: null })
    expect((await parley.eventsOf(runId)).at(-1)).toBe('RunCanceled')
    await parley.runWhen(ended.children.edges[0].node.id)
  })

  test('a cascade on an ended run stops the runs that it triggered, and lists them', async () => {
    const [boss, hand] = [await parley.agent('Boss'), await parley.agent('Hand')]
    const space = await parley.space(human, [boss.id, hand.id])
    parley.models.script(
      forAgent('Boss', steps([{ toolCall: 'send_message', input: { text: 'Hand, dig.' } }], [{ text: 'Told.' }])),
    )
    parley.models.script(
      forAgent('Hand', ({ messages }) =>
        messages.at(-1)?.text.includes('Hand, dig.') ? [{ hang: true }] : [{ text: 'Nothing for me.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Go')
    const parentId = runs.find(({ agentId }) => agentId === boss.id)?.id ?? ''
    await parley.runWhen(parentId)
    const { prisma } = parley.app.platform.db
    const child = await until('the child runs', () =>
      prisma.run.findFirst({ where: { parentRunId: parentId, status: 'RUNNING' } }),
    )
    expect(await runOf(parentId)).toMatchObject({ children: { edges: [{ node: { id: child.id } }] } })
    expect(await runOf(child.id)).toMatchObject({ parent: { id: parentId } })
    const { stopRun } = await ask(STOP, { input: { runId: parentId, cascade: true } })
    expect(stopRun).toMatchObject({ run: { id: parentId, status: 'COMPLETED' }, stoppedRuns: [{ id: child.id }] })
  })

  describe('retryRun', () => {
    test('starts a failed run again: the outcome is RUN again, and the two runs refer to each other', async () => {
      const { runId, space } = await asked(refused)
      await parley.runWhen(runId)
      parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Here I am.' } }], [{ text: 'Done.' }]))
      const { retryRun } = await ask(RETRY, { input: { runId } })
      expect(retryRun).toMatchObject({ __typename: 'RetryRunPayload', run: { depth: 0, retryOf: { id: runId } } })
      const again = await parley.runWhen(retryRun.run.id)
      expect(again).toMatchObject({ status: 'COMPLETED', rootId: (await parley.run(runId)).rootId })
      const { retriedBy, triggerMessage } = await runOf(runId)
      expect(retriedBy).toEqual({ id: again.id })
      expect(triggerMessage.outcomes).toEqual([{ kind: 'RUN', error: null, run: { id: again.id } }])
      expect((await parley.messages(space.id)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
    })

    test('takes effect once, even with two concurrent requests', async () => {
      const { runId } = await asked(refused)
      await parley.runWhen(runId)
      parley.models.script(() => [{ text: 'Done.' }])
      const answers = await Promise.all([1, 2].map(() => ask(RETRY, { input: { runId } })))
      expect(answers.map(({ retryRun }) => retryRun.__typename).sort()).toEqual(['ConflictError', 'RetryRunPayload'])
    })

    test('is refused for a run that has not failed, for strangers, and for a root at its limit', async () => {
      const { runId } = await asked(() => [{ text: 'Done.' }])
      await parley.runWhen(runId)
      expect((await ask(RETRY, { input: { runId } })).retryRun.__typename).toBe('ConflictError')
      const stranger = await parley.clientOf(await parley.human('Stranger'))
      expect((await ask(RETRY, { input: { runId } }, stranger)).retryRun.__typename).toBe('NotFoundError')
      let { runId: failed } = await asked(refused)
      for (let runs = 1; runs < 4; runs++) {
        await parley.runWhen(failed)
        failed = (await ask(RETRY, { input: { runId: failed } })).retryRun.run.id
      }
      await parley.runWhen(failed)
      expect((await ask(RETRY, { input: { runId: failed } })).retryRun.__typename).toBe('LimitExceededError')
    })

    test('the events of a think cycle that is retried wait in the inbox again', async () => {
      const thinking = thinkingOn(parley)
      const agent = await thinking.bot('Ida')
      const space = await parley.space(human, [agent.id])
      parley.models.script(() => [{ error: 'Not that.', status: 400 }])
      const { message } = await parley.send(human, space.id, 'Think')
      await thinking.rest(agent)
      const [cycle] = await thinking.runsOf(agent)
      expect(await thinking.outcomeOf(message, agent)).toMatchObject({
        kind: 'FAILED',
        error: expect.stringContaining('refused the request'),
      })
      parley.models.script(() => [{ text: 'Thought.' }])
      const { retryRun } = await ask(RETRY, { input: { runId: cycle?.id ?? '' } })
      expect(retryRun).toEqual({ __typename: 'RetryRunPayload', run: null })
      await thinking.rest(agent)
      expect((await thinking.runsOf(agent)).map(({ status }) => status)).toEqual(['FAILED', 'COMPLETED'])
      expect(await thinking.outcomeOf(message, agent)).toMatchObject({ kind: 'INBOX', error: null })
      expect((await ask(RETRY, { input: { runId: cycle?.id ?? '' } })).retryRun.__typename).toBe('ConflictError')
    })
  })

  test('runs can be found by agent, space, root, status and time, page by page, if the viewer may see them', async () => {
    const agent = await parley.agent('Una')
    const [here, there] = [await parley.space(human, [agent.id]), await parley.space(human, [agent.id])]
    parley.models.script(() => [{ text: 'Done.' }])
    const ids: string[] = []
    for (const space of [here, there, here]) {
      const { runs } = await parley.send(human, space.id, 'Go')
      ids.push((await parley.runWhen(runs[0]?.id ?? '')).id)
    }
    const found = async (filter: object, page: object = {}, who = client) =>
      (await ask(RUNS, { filter: { agentId: agent.id, ...filter }, ...page }, who)).runs
    const idsOf = (page: { edges: { node: { id: string } }[] }) => page.edges.map(({ node }) => node.id)
    expect(idsOf(await found({}))).toEqual(ids.toReversed())
    expect(idsOf(await found({ spaceId: there.id }))).toEqual([ids[1]])
    expect(idsOf(await found({ status: ['FAILED'] }))).toEqual([])
    expect(idsOf(await found({ rootId: (await parley.run(ids[2] ?? '')).rootId }))).toEqual([ids[2]])
    expect(idsOf(await found({ since: (await parley.run(ids[1] ?? '')).queuedAt }))).toEqual([ids[2], ids[1]])
    const first = await found({}, { first: 2 })
    expect(first.pageInfo).toEqual({ hasNextPage: true, hasPreviousPage: false })
    const rest = await found({}, { first: 2, after: first.edges[1].cursor })
    expect([idsOf(rest), rest.pageInfo]).toEqual([[ids[0]], { hasNextPage: false, hasPreviousPage: true }])
    const stranger = await parley.clientOf(await parley.human('Stranger'))
    expect(idsOf(await found({}, {}, stranger))).toEqual([])
    expect(idsOf(await found({}, {}, await parley.clientOf(parley.admin)))).toEqual(ids.toReversed())
  })
})

import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refundTool } from '../support/decisions.ts'
import { nodeTypes, selectionOf } from '../support/every-field.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import type { Read } from '../support/stage.ts'
import { mentions, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

// Built from the schema, so that the test also selects new fields of every object that can be reached from a call.

const SECRET = 'CANARY'
const SETTLED = `subscription { viewerEvents { __typename ... on ViewerToolCallSettled { toolCall { id approval { state } } } } }`
const TYPES: Record<string, string> = { tcl: 'ToolCall', run: 'Run', msg: 'Message', spc: 'Space' }

/** The public fields of a run. For an approver of one of its calls, all other fields are null or empty. */
const PUBLIC_OF_RUN = [
  'id',
  'agent',
  'status',
  'stepCount',
  'usage',
  'rootUsage',
  'toolCalls',
  'streamCursor',
  'children',
  'queuedAt',
  'startedAt',
  'finishedAt',
  'stopReason',
  'triggerType',
  'triggerSummary',
  'depth',
  'rootId',
  'agentVersion',
  'messages',
]
const PUBLIC_OF_CALL = [
  'id',
  'toolName',
  'status',
  'input',
  'agent',
  'run',
  'waitsFor',
  'settledAt',
  'expiresAt',
  'createdAt',
  'approval',
  'inputSchema',
  'claimedBy',
]

describe.each(RULE_STACKS)('a named approver who is not a member of the space, on the %s stack', (stack) => {
  const play = playDecisions(stack)

  /** Selects every field of one object. A query for all types at once would exceed the limits. */
  const everythingOf = (id: string) => {
    const type = nodeTypes.find(({ name }) => name === TYPES[id.slice(0, 3)])!
    return `query ($id: ID!) { node(id: $id) { __typename id ... on ${type.name} { ${selectionOf(type, 2)} } } }`
  }
  const nodesFor = async (client: ParleyClient, ids: string[]): Promise<Read[]> => {
    const found = await Promise.all(ids.map((id) => play.stage.ask(client, everythingOf(id), { id })))
    return found.filter((node) => node !== null)
  }
  const shown = (node: Read) =>
    Object.entries(node)
      .filter(([field, value]) => field !== '__typename' && value !== null && JSON.stringify(value) !== '[]')
      .map(([field]) => field.split('_')[0])

  /**
   * An agent that was mentioned by another calls two tools. The named approver of one of these calls is not a member of any
   * space.
   */
  async function begin() {
    const { stage, parley, service } = play
    const [alice, eve, fay] = await Promise.all(['Alice', 'Eve', 'Fay'].map((name) => stage.person(name)))
    if (alice === undefined || eve === undefined || fay === undefined) throw new Error('there are three people')
    const caller = await stage.bot('Caller', { toolset: 'ACTIVE_SPACE', instructions: SECRET })
    const note = {
      ...refundTool(service, {}),
      name: 'note',
      approval: undefined,
      visible: true,
      inputSchema: { type: 'object' },
    }
    const tools = [refundTool(service, { approverIds: [eve.id, fay.id] }, { visible: true }), note]
    const payer = await stage.bot('Payer', { toolset: 'ACTIVE_SPACE', instructions: SECRET, tools })
    const space = await stage.space(SECRET, [alice, caller, payer], { routing: 'MENTION_CHAIN' })
    takesTurns(parley.models, 'Caller', [[mentions(payer, `${SECRET} pay`, true)]], [[{ text: SECRET }]])
    const calls = [
      { toolCall: 'note', input: { about: SECRET } },
      { toolCall: 'refund', input: { amount: 20 } },
    ]
    takesTurns(parley.models, 'Payer', [calls, [{ text: SECRET }]])
    await stage.say(alice, space, SECRET)
    const call = await play.deciders.asked(eve)
    return { alice, eve, fay, space, call }
  }

  test('reads the call, its input and the public fields of its run, and nothing else, before and after', async () => {
    const { alice, eve, space, call } = await begin()
    const { admin } = play.stage
    const known = (await nodesFor(admin, [call.id]))[0]
    const runId = known.run_ToolCall.id_Run
    await play.parley.runWhen(runId, 'WAITING_TOOL')
    const run = await play.parley.run(runId)
    const others = (await play.parley.app.domain.toolCalls.ofRuns([runId])).get(runId)!.map(({ id }) => id)
    const messages = (await play.stage.messagesIn(space)).map(({ id }) => id)
    const ids = [call.id, runId, ...others, ...messages, space.id, run.parentRunId!]
    expect(run.chainId).not.toBe(null)
    await play.deciders.claim(eve, call.id)

    const look = async () => {
      const nodes = await nodesFor(eve.client, ids)
      expect(nodes.map((node) => node.__typename)).toEqual(['ToolCall', 'Run', 'ToolCall'])
      expect(JSON.stringify(nodes)).not.toContain(SECRET)
      const [asCall, asRun] = nodes
      expect(asCall).toMatchObject({ input_ToolCall: { amount: 20 }, output_ToolCall: null, message_ToolCall: null })
      expect(PUBLIC_OF_CALL).toEqual(expect.arrayContaining(shown(asCall)))
      expect(PUBLIC_OF_RUN).toEqual(expect.arrayContaining(shown(asRun)))
      expect(asRun.toolCalls_Run.map((one: Read) => one.id_ToolCall)).toEqual([call.id])
      expect(asRun.children_Run.edges_RunConnection ?? []).toEqual([])
      expect(asRun.messages_Run.edges_MessageConnection ?? []).toEqual([])
    }
    await look()
    for (const { client } of [alice, { client: admin }])
      expect(JSON.stringify(await nodesFor(client, [runId]))).toContain(SECRET)
    play.service.answer = { booked: SECRET }
    await play.deciders.decide(eve, call.id, true, { reason: 'fair' })
    await play.parley.runWhen(runId)
    await until('the agent is called back', () => play.parley.models.requests.length >= 4)
    await look()
    expect(JSON.stringify(await nodesFor(alice.client, [call.id]))).toContain(SECRET)
  })

  test('loses access once others have decided, after receiving the event of the decision', async () => {
    const { eve, fay, call } = await begin()
    const settled: Read[] = []
    const events = fay.client.subscribe<Read, object>({ toString: () => SETTLED } as never, {}, (event) =>
      settled.push(event),
    )
    await until('she is subscribed', () => settled.length > 0)
    const seenBy = async ({ client }: { client: ParleyClient }) => {
      const found = await nodesFor(client, [call.id, call.run.id])
      return found.map(({ __typename }) => __typename)
    }
    expect(await seenBy(fay)).toEqual(['ToolCall', 'Run'])
    await play.deciders.decide(eve, call.id, true)
    const told = await until('she gets the event', () =>
      settled.find((event) => JSON.stringify(event).includes(call.id)),
    )
    expect(told.viewerEvents.toolCall).toMatchObject({ id: call.id, approval: { state: 'APPROVED' } })
    await play.parley.runWhen(call.run.id)
    expect(await seenBy(fay)).toEqual([])
    expect(await seenBy(eve)).toEqual(['ToolCall', 'Run'])
    expect(await play.deciders.decide(fay, call.id, true)).toMatchObject({ __typename: 'ConflictError' })
    events.stop()
  })

  test('may only decide, and do nothing else with the run', async () => {
    const { eve, call } = await begin()
    const { run } = (await play.deciders.callFor({ client: play.stage.admin }, call.id)) as Read
    const events = eve.client.subscribe<Read, object>(`subscription { runEvents(runId: "${run.id}") { at } }`, {})
    expect(JSON.stringify(await events.ended)).toContain('NOT_FOUND')
    const stop = `mutation { stopRun(input: { runId: "${run.id}" }) { __typename } }`
    expect(await play.stage.ask(eve.client, stop)).toMatchObject({ __typename: 'NotFoundError' })
    expect((await play.stage.ask(eve.client, '{ runs { edges { node { id } } } }')).edges).toEqual([])
    expect(await play.deciders.submit(eve, call.id, {})).toMatchObject({ __typename: 'ConflictError' })
    await play.deciders.decide(eve, call.id, false)
    await play.parley.runWhen(run.id)
  })
})

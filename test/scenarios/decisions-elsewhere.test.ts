import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { steps } from '../support/model-server-script.ts'
import { type Read, resultsIn } from '../support/stage.ts'
import { inboxIn, type Thinking, thinkingOn } from '../support/thinking.ts'

describe.each(RULE_STACKS)('decisions of every kind of agent, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  const { room } = play
  let mcp: McpServer
  let thinking: Thinking
  beforeAll(async () => {
    thinking = thinkingOn(play.parley)
    mcp = await startMcpServer([
      {
        name: 'pay',
        description: 'Pays.',
        inputSchema: { type: 'object' },
        answer: () => ({ structuredContent: { paid: true } }),
      },
      {
        name: 'look',
        description: 'Looks.',
        inputSchema: { type: 'object' },
        answer: () => ({ structuredContent: { seen: 1 } }),
      },
    ])
  })
  afterAll(() => mcp?.close())

  test('an MCP server can require approval for all tools or for named ones', async () => {
    const servers = [{ name: 'bank', url: mcp.url, approval: { expiresInSeconds: 86_400 }, approvalTools: ['pay'] }]
    const first = [
      { toolCall: 'bank__look', input: {} },
      { toolCall: 'bank__pay', input: { to: 'Bob' } },
    ]
    const { alice, runId, agent } = await room([], first, { mcpServers: servers })
    const call = await play.deciders.asked(alice)
    expect(call).toMatchObject({ toolName: 'bank__pay', input: { to: 'Bob' }, message: { status: 'REQUIRES_ACTION' } })
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    expect((await play.parley.run(runId!)).deadlineAt).toBe(null)
    const called = () =>
      mcp.received.filter(({ method }) => method === 'tools/call').map(({ params }) => params['name'])
    expect(called()).toEqual(['look'])
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId!)
    expect(called()).toEqual(['look', 'pay'])
    expect(resultsIn(await play.parley.models.request(({ step }) => step === 1))).toEqual([{ seen: 1 }, { paid: true }])
    const internals = await play.stage.ask(
      play.stage.admin,
      `{ agent(id: "${agent.id}") { internals { mcpServers { approvalTools approval { quorum expiresInSeconds approvers { id } } } } } }`,
    )
    expect(internals.internals.mcpServers).toEqual([
      { approvalTools: ['pay'], approval: { quorum: 1, expiresInSeconds: 86_400, approvers: null } },
    ])
    mcp.received.length = 0
  })

  test('a persistent agent gets pending at once; an approved call runs while the agent is idle, and its result goes to the inbox', async () => {
    const tools = [refundTool(play.service, { quorum: 2 })]
    const first = [{ toolCall: 'enter_space', input: {} }]
    const { alice, bob, space, agent } = await room(tools, first, { mind: 'PERSISTENT' })
    await thinking.rest(agent)
    play.parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? [{ text: 'I have the result.' }]
        : steps(
            [{ toolCall: 'enter_space', input: { spaceId: space.id } }, refund(5)],
            [{ text: 'I sleep.' }],
          )(request),
    )
    await play.stage.say(alice, space, 'Give it back, please')
    const call = await play.deciders.asked(alice)
    await thinking.rest(agent)
    expect((await thinking.runsOf(agent)).at(-1)).toMatchObject({ status: 'COMPLETED', summary: 'I sleep.' })
    const second = play.parley.models.requests.findLast(({ step }) => step === 1)
    expect(resultsIn(second!).at(-1)).toEqual({ status: 'pending', toolCallId: call.id })
    await play.deciders.decide(alice, call.id, true)
    const edited = await play.deciders.decide(bob, call.id, true, { input: { amount: 4 } })
    await play.deciders.decide(alice, call.id, true, { inputDigest: edited.toolCall.approval.inputDigest })
    await play.deciders.callWhen(call.id, ({ status }) => status === 'DONE')
    await thinking.rest(agent)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 4 } }])
    const told = inboxIn(play.parley.models.requests.at(-1)!).split('\n').slice(1)
    expect(told).toEqual([
      `- [TOOL_RESULT refund (id: ${call.id})] {"booked":{"amount":4}}`,
      '  It was approved by "Bob", "Alice", with another input than yours: {"amount":4}.',
    ])
    expect((await play.stage.messagesIn(space)).at(-1)).toMatchObject({ status: 'COMPLETE' })
  })

  test('a persistent agent reads a denial in its inbox; calls pending in a space that the agent leaves are CANCELED', async () => {
    const { alice, space, agent } = await room([refundTool(play.service, {})], [{ text: 'Hm.' }], {
      mind: 'PERSISTENT',
    })
    await thinking.rest(agent)
    const ask = steps(
      [{ toolCall: 'enter_space', input: { spaceId: space.id } }, refund(5), refund(6)],
      [{ text: 'I sleep.' }],
    )
    play.parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT') ? [{ text: 'Oh.' }] : ask(request),
    )
    await play.stage.say(alice, space, 'Do it')
    await play.deciders.asked(alice)
    await thinking.rest(agent)
    const [first, second] = await play.deciders.pendingOf(alice)
    await play.deciders.decide(alice, first.id, false, { reason: 'no' })
    await thinking.rest(agent)
    expect(inboxIn(play.parley.models.requests.at(-1)!)).toContain(
      '"code":"DENIED","message":"Denied by \\"Alice\\": \\"no\\".',
    )
    await play.stage.ask(
      alice.client,
      `mutation { removeMember(input: { spaceId: "${space.id}", entityId: "${agent.id}" }) { __typename } }`,
    )
    const canceled = await play.deciders.callFor(alice, second.id)
    expect(canceled).toMatchObject({ status: 'CANCELED', approval: { state: 'CANCELED' } })
    expect(await play.deciders.decide(alice, second.id, true)).toMatchObject({ __typename: 'ConflictError' })
    expect(play.service.calls).toEqual([])
  })

  test('outside a space, only named approvers are asked; without any, the model gets an error that tells it to enter a space', async () => {
    const tools = [
      refundTool(play.service, { approverIds: ['@eve'] }),
      { ...refundTool(play.service, {}), name: 'give' },
    ]
    const { eve, agent, runId } = await room(tools, [{ text: 'Hm.' }])
    await play.parley.runWhen(runId!)
    const token = await play.parley.clientOf({
      scope: 'SERVICE',
      id: 'x',
      name: 'shop',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    })
    play.parley.models.script(steps([refund(7), { toolCall: 'give', input: { amount: 8 } }], [{ text: 'Done.' }]))
    const { run } = await play.stage.ask(
      token,
      `mutation { triggerAgent(input: { agentId: "${agent.id}", payload: {} }) { ... on TriggerAgentPayload { run { id } } } }`,
    )
    const call = await play.deciders.asked(eve)
    expect(call).toMatchObject({ message: null, input: { amount: 7 } })
    await play.deciders.decide(eve, call.id, true)
    await play.parley.runWhen(run.id)
    const results = resultsIn(
      await play.parley.models.request(
        ({ step, messages }) => step === 1 && messages.some(({ text }) => text.includes('booked')),
      ),
    )
    expect(results[0]).toEqual({ booked: { amount: 7 } })
    expect(results[1].error.code).toBe('NO_ACTIVE_SPACE')
  })

  test('the call appears in the space that the agent has entered, for its members, not for those who woke the agent', async () => {
    const { alice, eve, agent, runId } = await room([refundTool(play.service, {})], [{ text: 'Hm.' }])
    await play.parley.runWhen(runId!)
    const [here, there] = await Promise.all([
      play.stage.space('Here', [alice, agent], { routing: 'BROADCAST' }),
      play.stage.space('There', [eve, agent], { routing: 'BROADCAST' }),
    ])
    const enter = { toolCall: 'enter_space', input: { spaceId: there.id } }
    play.parley.models.script(steps([enter, refund(3)], [{ text: 'Done.' }]))
    const { runs } = await play.stage.say(alice, here, 'Do it there')
    const call = await play.deciders.asked(eve)
    expect(await play.deciders.pendingOf(alice)).toEqual([])
    expect((await play.stage.messagesIn(there)).map(({ id }) => id)).toEqual([call.message.id])
    await play.deciders.decide(eve, call.id, true)
    await play.parley.runWhen(runs[0].id)
    expect(play.service.calls).toHaveLength(1)
  })

  test('with SPACE_TOOLS, the call appears in the space that woke the agent', async () => {
    const { alice, space, runId } = await room([refundTool(play.service, {})], [refund(3)], { toolset: 'SPACE_TOOLS' })
    const call = await play.deciders.asked(alice)
    expect(call.message).not.toBe(null)
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 3 } }])
    expect((await play.stage.messagesIn(space)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
  })

  test('followers of the run, the space and their own events see each state of a decision', async () => {
    const { alice, bob, space, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(3)])
    const call = await play.deciders.asked(alice)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const about = 'toolCall { id approval { state decisions { human { name } } } }'
    const watch = (client: typeof alice.client, field: string, selection: string) =>
      client.subscribe<Read, object>(`subscription { ${field} { __typename ${selection} } }`, {})
    const ofRun = watch(alice.client, `runEvents(runId: "${runId}")`, `... on RunToolCallChanged { ${about} }`)
    const ofSpace = watch(
      alice.client,
      `spaceMessages(spaceId: "${space.id}")`,
      `... on MessagePartChanged { part { ... on ToolCallPart { ${about} } } }`,
    )
    const ofViewer = watch(
      bob.client,
      'viewerEvents',
      `... on ViewerToolCallChanged { ${about} } ... on ViewerToolCallSettled { toolCall { id } }`,
    )
    await Promise.all([ofSpace.first(() => true), ofViewer.first(() => true), ofRun.first(() => true)])
    await play.deciders.decide(alice, call.id, true)
    const half = { id: call.id, approval: { state: 'PENDING', decisions: [{ human: { name: 'Alice' } }] } }
    const sees = (toolCall: Read) => toolCall !== undefined && JSON.stringify(toolCall) === JSON.stringify(half)
    await ofRun.first(({ runEvents }) => runEvents.__typename === 'RunToolCallChanged' && sees(runEvents.toolCall))
    await ofSpace.first(({ spaceMessages }) => sees(spaceMessages.part?.toolCall))
    await ofViewer.first(
      ({ viewerEvents }) => viewerEvents.__typename === 'ViewerToolCallChanged' && sees(viewerEvents.toolCall),
    )
    await play.deciders.decide(bob, call.id, true)
    await ofViewer.first(({ viewerEvents }) => viewerEvents.__typename === 'ViewerToolCallSettled')
    await ofSpace.first(({ spaceMessages }) => spaceMessages.part?.toolCall?.approval?.state === 'APPROVED')
    await play.parley.runWhen(runId!)
    for (const one of [ofRun, ofSpace, ofViewer]) one.stop()
  })

  test.each([
    [{ quorum: 0 }, 'quorum'],
    [{ quorum: 51 }, 'quorum'],
    [{ quorum: 3, approverIds: ['@alice', '@bob'] }, 'quorum'],
    [{ approverIds: [] }, 'approverIds'],
    [{ approverIds: ['hum_nobody'] }, 'approverIds'],
    [{ expiresInSeconds: 2_592_001 }, 'expiresInSeconds'],
    [{ expiresInSeconds: 60, escalateAfterSeconds: 60, escalateToIds: ['@eve'] }, 'escalateAfterSeconds'],
    [{ escalateAfterSeconds: 5 }, 'escalateToIds'],
    [{ escalateToIds: ['@eve'] }, 'escalateAfterSeconds'],
  ])('the policy %j is refused, with the name of the field', async (approval, field) => {
    const people = await Promise.all(['Alice', 'Bob', 'Eve'].map(play.stage.person))
    const ids = Object.fromEntries(people.map(({ name, id }) => [`@${name.toLowerCase()}`, id]))
    const named = (list?: string[]) => list?.map((name) => ids[name] ?? name)
    const { approverIds, escalateToIds, ...rest } = approval as Read
    const policy = { ...rest, approverIds: named(approverIds), escalateToIds: named(escalateToIds) }
    const input = { name: 'Ada', instructions: '', tools: [refundTool(play.service, policy)] }
    const refused = await play.stage.ask(
      play.stage.admin,
      'mutation ($input: CreateAgentInput!) { createAgent(input: $input) { __typename ... on BadInputError { field } } }',
      { input },
    )
    expect(refused).toEqual({ __typename: 'BadInputError', field: `input.tools.0.approval.${field}` })
  })
})

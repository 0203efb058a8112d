import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const AGENT_ACTIVITY = `subscription ($spaceId: ID!) {
  agentActivity(spaceId: $spaceId) { at spaceId agent { id name } active runs { id status } }
}`

type Activity = {
  agentActivity: { agent: { id: string; name: string }; active: boolean; runs: { id: string; status: string }[] }
}

const VIEWER_EVENTS = `subscription {
  viewerEvents {
    __typename at
    ... on ViewerSnapshot { viewer { id unreadCount pendingToolCalls { id } } }
    ... on ViewerSpaceAdded { space { id name } }
    ... on ViewerSpaceRemoved { spaceId }
    ... on ViewerSpaceChanged { space { id name unreadCount lastMessage { text } } }
    ... on ViewerToolCallWaiting { toolCall { id status toolName } }
    ... on ViewerToolCallSettled { toolCall { id status output } }
  }
}`
// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
type ViewerEvent = { viewerEvents: { __typename: string; [field: string]: any } }
interface Served {
  toolset?: 'ACTIVE_SPACE' | 'SPACE_TOOLS'
  visible?: boolean
  /** The input fields that place the call in a space. */
  placement?: { targetSpaceId?: 'space'; mention?: 'other' }
}
const SHOWN = { toolset: 'SPACE_TOOLS', visible: true, placement: { targetSpaceId: 'space' } } satisfies Served
const COMPUTE = {
  name: 'compute',
  description: 'Computes',
  inputSchema: { type: 'object' },
  execution: 'EXTERNAL',
} as const
const ASK_COLOR = { ...COMPUTE, name: 'ask_color', description: 'Asks', execution: 'SPACE' } as const
const is = (type: string) => (data: ViewerEvent) => data.viewerEvents.__typename === type

describe.each(RULE_STACKS)('on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  describe('agentActivity', () => {
    async function watch(viewer: Viewer, spaceId: string) {
      return (await parley.clientOf(viewer)).subscribe<Activity, object>(AGENT_ACTIVITY, { spaceId })
    }

    test('first publishes every agent member, then each change of their runs', async () => {
      const gate = Promise.withResolvers<void>()
      const [busy, idle] = [await parley.agent('Busy'), await parley.agent('Idle')]
      const human = await parley.human('Ada')
      const space = await parley.space(human, [busy.id, idle.id])
      parley.models.script(forAgent('Busy', steps([{ gate: gate.promise }, { text: 'done' }])))
      parley.models.script(forAgent('Idle', steps([{ text: 'done' }])))
      const live = await watch(human, space.id)
      await until('both states are published', () => live.seen.length >= 2)
      expect(live.seen.slice(0, 2)).toMatchObject([
        { agentActivity: { agent: { name: 'Busy' }, active: false, runs: [] } },
        { agentActivity: { agent: { name: 'Idle' }, active: false, runs: [] } },
      ])
      const { runs } = await parley.send(human, space.id, 'Go')
      const run = runs.find(({ agentId }) => agentId === busy.id)
      await live.first(({ agentActivity: { agent, active } }) => agent.id === busy.id && active)
      const active = live.seen.findLast(({ agentActivity }) => agentActivity.agent.id === busy.id)
      expect(active?.agentActivity.runs).toEqual([{ id: run?.id, status: 'RUNNING' }])
      gate.resolve()
      await until('the agent is idle again', () => {
        const last = live.seen.findLast(({ agentActivity }) => agentActivity.agent.id === busy.id)
        return last?.agentActivity.active === false && last.agentActivity.runs.length === 0
      })
      live.stop()
    })

    test('includes an agent that joins, and runs in other spaces without their content', async () => {
      const agent = await parley.agent('Guest')
      const human = await parley.human('Ada')
      const other = await parley.human('Bob')
      const space = await parley.space(human, [])
      const elsewhere = await parley.space(other, [agent.id])
      const gate = Promise.withResolvers<void>()
      parley.models.script(forAgent('Guest', steps([{ gate: gate.promise }, { text: 'done' }])))
      const live = await watch(human, space.id)
      await parley.app.domain.members.add(human, { spaceId: space.id, entityId: agent.id })
      expect((await live.first(() => true)).agentActivity).toMatchObject({ agent: { name: 'Guest' }, active: false })
      await parley.send(other, elsewhere.id, 'Go')
      expect(await live.first(({ agentActivity }) => agentActivity.active)).toMatchObject({
        agentActivity: { runs: [] },
      })
      gate.resolve()
      live.stop()
    })

    test('is NOT_FOUND for strangers, and FORBIDDEN after leaving', async () => {
      const human = await parley.human('Ada')
      const agent = await parley.agent('Left')
      const space = await parley.space(human, [agent.id])
      const foreign = await watch(await parley.human('Eve'), space.id)
      expect(await foreign.ended).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }])
      const live = await watch(human, space.id)
      await live.first(() => true)
      await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
      expect(await live.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    })
  })

  describe('viewerEvents', () => {
    async function watch(viewer: Viewer) {
      return (await parley.clientOf(viewer)).subscribe<ViewerEvent, object>(VIEWER_EVENTS, {})
    }

    test('begins with a snapshot, then publishes spaces that are added, changed and removed', async () => {
      const human = await parley.human('Ada')
      const bob = await parley.human('Bob')
      const live = await watch(human)
      expect((await live.first(() => true)).viewerEvents).toMatchObject({
        __typename: 'ViewerSnapshot',
        viewer: { id: human.id.replace('hum_', 'viw_'), unreadCount: 0, pendingToolCalls: [] },
      })
      const space = await parley.space(human, [])
      expect((await live.first(is('ViewerSpaceAdded'))).viewerEvents['space'].id).toBe(space.id)
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
      const { message } = await parley.send(bob, space.id, 'Hello Ada')
      const changed = await live.first(is('ViewerSpaceChanged'))
      expect(changed.viewerEvents['space']).toMatchObject({
        id: space.id,
        unreadCount: 1,
        lastMessage: { text: 'Hello Ada' },
      })
      await parley.app.domain.reading.markRead(human, { spaceId: space.id, messageId: message.id })
      await live.first(({ viewerEvents }) => viewerEvents['space']?.unreadCount === 0)
      await parley.app.domain.spaces.update(human, { id: space.id, name: 'Renamed' })
      await live.first(
        ({ viewerEvents }) =>
          viewerEvents.__typename === 'ViewerSpaceChanged' && viewerEvents['space'].name === 'Renamed',
      )
      await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
      expect((await live.first(is('ViewerSpaceRemoved'))).viewerEvents['spaceId']).toBe(space.id)
      live.stop()
    })

    test('merges the changes of one space to two per second, and never loses the last change', async () => {
      const human = await parley.human('Ada')
      const bob = await parley.human('Bob')
      const space = await parley.space(human, [])
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
      const live = await watch(human)
      await live.first(is('ViewerSnapshot'))
      const began = Date.now()
      for (let n = 1; n <= 30; n++) await parley.send(bob, space.id, `message ${n}`)
      await live.first(({ viewerEvents }) => viewerEvents['space']?.lastMessage?.text === 'message 30')
      const seconds = (Date.now() - began) / 1000
      expect(live.seen.filter(is('ViewerSpaceChanged')).length).toBeLessThanOrEqual(Math.ceil(seconds * 2) + 1)
      live.stop()
    })

    test('an admin receives the spaces that others create and delete', async () => {
      const live = await watch(parley.admin)
      await live.first(is('ViewerSnapshot'))
      const ada = await parley.human('Ada')
      const space = await parley.space(ada, [])
      await live.first(
        ({ viewerEvents }) => viewerEvents.__typename === 'ViewerSpaceAdded' && viewerEvents['space'].id === space.id,
      )
      const remove = `mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }`
      const answer = await (await parley.clientOf(ada)).ask(remove, { id: space.id })
      expect(answer.data).toEqual({ deleteSpace: { __typename: 'DeleteSpacePayload' } })
      await live.first(
        ({ viewerEvents }) => viewerEvents.__typename === 'ViewerSpaceRemoved' && viewerEvents['spaceId'] === space.id,
      )
      live.stop()
    })

    test('members receive calls that wait for them, and their results', async () => {
      const human = await parley.human('Ada')
      const agent = await parley.agent('Asker', { tools: [ASK_COLOR] })
      const space = await parley.space(human, [agent.id])
      parley.models.script(forAgent('Asker', steps([{ toolCall: 'ask_color', input: {} }], [{ text: 'thanks' }])))
      const live = await watch(human)
      await live.first(is('ViewerSnapshot'))
      const { runs } = await parley.send(human, space.id, 'Ask me')
      const { toolCall } = (await live.first(is('ViewerToolCallWaiting'))).viewerEvents
      expect(toolCall).toMatchObject({ status: 'WAITING', toolName: 'ask_color' })
      const client = await parley.clientOf(human)
      const pending = await client.ask<{ viewer: { pendingToolCalls: { id: string }[] } }>(
        '{ viewer { pendingToolCalls { id } } }',
      )
      expect(pending.data?.viewer.pendingToolCalls).toEqual([{ id: toolCall['id'] }])
      const answer = await client.ask<{ submitToolResult: { toolCall: object } }>(
        `mutation ($input: SubmitToolResultInput!) { submitToolResult(input: $input) {
          ... on SubmitToolResultPayload { toolCall { id status output } } ... on Error { code message } } }`,
        { input: { toolCallId: toolCall['id'], result: false } },
      )
      expect(answer.data?.submitToolResult.toolCall).toEqual({ id: toolCall['id'], status: 'DONE', output: false })
      const settled = await live.first(is('ViewerToolCallSettled'))
      expect(settled.viewerEvents['toolCall']).toEqual({ id: toolCall['id'], status: 'DONE', output: false })
      await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
      live.stop()
    })

    test('a new member receives the calls that wait for an answer there', async () => {
      const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
      const agent = await parley.agent('Asker', { tools: [ASK_COLOR] })
      const space = await parley.space(human, [agent.id])
      parley.models.script(forAgent('Asker', steps([{ toolCall: 'ask_color', input: {} }], [{ text: 'thanks' }])))
      const { runs } = await parley.send(human, space.id, 'Ask me')
      await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
      const live = await watch(bob)
      await live.first(is('ViewerSnapshot'))
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
      const { toolCall } = (await live.first(is('ViewerToolCallWaiting'))).viewerEvents
      expect(toolCall).toMatchObject({ status: 'WAITING', toolName: 'ask_color' })
      expect(live.seen.filter(is('ViewerSpaceAdded'))).toHaveLength(1)
      live.stop()
    })

    /**
     * Creates a service with a grant for an agent. The agent has the EXTERNAL tool `compute`, and calls it for each message in
     * its space.
     */
    async function served({ toolset = 'ACTIVE_SPACE', visible = false, placement = {} }: Served) {
      const human = await parley.human('Ada')
      const agent = await parley.agent('Worker', { toolset, tools: [{ ...COMPUTE, visible }] })
      const other = await parley.agent('Other')
      const admin = { routing: 'ADMIN', adminAgentId: agent.id } as const
      const space = await parley.space(human, [agent.id, other.id], admin)
      const placed = Object.fromEntries(
        Object.entries(placement).map(([field, of]) => [field, of === 'space' ? space.id : other.id]),
      )
      const input = { n: 1, ...placed }
      parley.models.script(forAgent('Worker', steps([{ toolCall: 'compute', input }], [{ text: 'thanks' }])))
      parley.models.script(forAgent('Other', () => [{ text: 'Seen.' }]))
      const scope = { scope: 'SERVICE' as const, tokenId: null, expiresAt: null }
      const client = await parley.clientOf({ ...scope, id: newId('acc'), name: 'math', agentIds: [agent.id] })
      const live = client.subscribe<ViewerEvent, object>(VIEWER_EVENTS, {})
      await live.first(is('ViewerSnapshot'))
      const { runs } = await parley.send(human, space.id, 'Compute')
      return { client, live, human, runId: runs[0]?.id ?? '' }
    }

    test('a service receives the EXTERNAL calls of its agents', async () => {
      const { client, live, runId } = await served({})
      const { toolCall } = (await live.first(is('ViewerToolCallWaiting'))).viewerEvents
      await client.ask('mutation ($input: SubmitToolResultInput!) { submitToolResult(input: $input) { __typename } }', {
        input: { toolCallId: toolCall['id'], result: 2 },
      })
      expect((await live.first(is('ViewerToolCallSettled'))).viewerEvents['toolCall']).toMatchObject({ output: 2 })
      await parley.runWhen(runId, 'COMPLETED')
      live.stop()
    })

    test.each<[string, Served]>([
      ['that is not visible', {}],
      ['that is visible in the active space', { visible: true }],
    ])('an admin gets an EXTERNAL call %s once, and its result', async (_, call) => {
      const client = await parley.clientOf(parley.admin)
      const live = client.subscribe<ViewerEvent, object>(VIEWER_EVENTS, {})
      await live.first(is('ViewerSnapshot'))
      const { runId } = await served(call)
      const { toolCall } = (await live.first(is('ViewerToolCallWaiting'))).viewerEvents
      await client.ask('mutation ($input: SubmitToolResultInput!) { submitToolResult(input: $input) { __typename } }', {
        input: { toolCallId: toolCall['id'], result: 2 },
      })
      await live.first(is('ViewerToolCallSettled'))
      await parley.runWhen(runId, 'COMPLETED')
      const ofCalls = live.seen
        .map(({ viewerEvents }) => viewerEvents.__typename)
        .filter((type) => /ToolCall/.test(type))
      expect(ofCalls).toEqual(['ViewerToolCallWaiting', 'ViewerToolCallSettled'])
      live.stop()
    })

    test.each<[string, Served]>([
      ['that shows nowhere', {}],
      ['that shows in the active space', { visible: true }],
      ['that shows where the model says', SHOWN],
      ['that shows there and mentions an agent', { ...SHOWN, placement: { ...SHOWN.placement, mention: 'other' } }],
    ])('a service gets an EXTERNAL call %s, and its end when the run is stopped', async (_, call) => {
      const { live, human, runId } = await served(call)
      const { toolCall } = (await live.first(is('ViewerToolCallWaiting'))).viewerEvents
      expect(toolCall).toMatchObject({ status: 'WAITING', toolName: 'compute' })
      await parley.runWhen(runId, 'WAITING_TOOL')
      await parley.app.domain.control.stopRun(human, { runId, cascade: false })
      const settled = await live.first(is('ViewerToolCallSettled'))
      expect(settled.viewerEvents['toolCall']).toMatchObject({ id: toolCall['id'], status: 'CANCELED' })
      live.stop()
    })
  })
})

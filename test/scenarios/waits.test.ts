import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { forAgent, type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { playScenarios, type Read, type Stage, wokenBy } from '../support/stage.ts'
import { until } from '../support/until.ts'

const CONFIRM = {
  name: 'confirm',
  description: 'Asks a person to confirm.',
  inputSchema: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
  execution: 'SPACE',
  visible: true,
}
const CHART = { ...CONFIRM, name: 'showChart', description: 'Shows a chart.', execution: 'INTERNAL' }
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { __typename ... on SubmitToolResultPayload { toolCall { status } } ... on Error { message } }
}`
const STOP = `mutation ($input: StopRunInput!) {
  stopRun(input: $input) { __typename ... on StopRunPayload { run { status } } ... on Error { message } }
}`
const PENDING = `{ viewer { pendingToolCalls { id toolName status waitsFor input expiresAt
  message { status waitingCall { id } } } } }`
const UPDATES = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessageUpdated { message { outcomes { kind run { id } } } } } }`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { __typename ... on Error { message } }
}`

describe('mentions on parts that wait, and messages that answer', () => {
  let parley: TestServer
  let stage: Stage

  playScenarios('embedded', (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const show = (tool: string, spaceId: string, more: object = {}): ModelAction => ({
    toolCall: tool,
    input: { what: 'the budget', targetSpaceId: spaceId, ...more },
  })
  const kinds = ({ outcomes }: Read) => Object.fromEntries(outcomes.map(({ agent, kind }: Read) => [agent.name, kind]))

  async function openRoom() {
    const ann = await stage.person('Ann')
    const [ada, bob] = [await stage.bot('Ada', { tools: [CONFIRM, CHART] }), await stage.bot('Bob', { tools: [CHART] })]
    return { ann, ada, bob, room: await stage.space('Room', [ann, ada, bob]) }
  }

  describe('a mention on a part that waits', () => {
    test('wakes when the part is shown, and only once', async () => {
      const { ann, ada, bob, room } = await openRoom()
      parley.models.script(
        forAgent('Ada', when(wokenBy('Begin'), steps([show('confirm', room.id, { mention: bob.id })]))),
      )
      parley.models.script(forAgent('Bob', steps([sayIn(room.id, 'I see it.')])))
      await stage.say(ann, room, 'Begin')
      const [run] = await stage.endedRuns(bob, 1)
      const asked = (await stage.messagesIn(room))[1]
      expect(asked).toMatchObject({ status: 'REQUIRES_ACTION', mentionedAgent: { id: bob.id } })
      expect(run).toMatchObject({ status: 'COMPLETED', triggerMessage: { id: asked.id } })
      const input = { toolCallId: asked.parts[0].toolCall.id, result: 'yes' }
      expect((await stage.ask(ann.client, SUBMIT, { input })).__typename).toBe('SubmitToolResultPayload')
      await stage.endedRuns(ada, 1)
      expect((await stage.messagesIn(room))[1]).toMatchObject({ status: 'COMPLETE' })
      expect(await stage.runsOf(bob)).toHaveLength(1)
    })

    test('wakes also where an earlier part of the message waits, and the run is stopped then', async () => {
      const { ann, ada, bob, room } = await openRoom()
      const said = [show('confirm', room.id), sayIn(room.id, 'Look at this', { mention: bob.id })]
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps(said))))
      const { runs } = await stage.say(ann, room, 'Begin')
      await stage.endedRuns(bob, 1)
      await stage.ask(ann.client, STOP, { input: { runId: runs[0].id } })
      await stage.endedRuns(ada, 1)
      const asked = (await stage.messagesIn(room))[1]
      expect(kinds(asked)).toEqual({ Bob: 'RUN' })
    })
  })

  describe('a message that answers a wait', () => {
    /** Ada has asked and waits; what she is told at last. */
    async function asking(conditions: object[], more: object = {}) {
      const cast = await openRoom()
      const question = sayIn(cast.room.id, 'Do you approve?', { wait: { for: conditions, timeout: 60 }, ...more })
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([question], [{ text: 'Noted.' }]))))
      const { runs } = await stage.say(cast.ann, cast.room, 'Begin')
      await until('Ada waits', async () => {
        const asked = (await stage.messagesIn(cast.room))[1]
        return asked !== undefined && asked.status !== 'STREAMING'
      })
      const replyTo = async () => {
        const ended = async () => (await stage.runsOf(cast.ada)).find(({ id }) => id === runs[0].id)
        const run = await until('Ada has her answer', async () => (await ended())?.status === 'COMPLETED' && ended())
        return run.toolCalls[0].output
      }
      return { ...cast, runId: runs[0].id, replyTo }
    }

    test('is ANSWERED with the run that waited, and starts no second one', async () => {
      const { ann, ada, room, runId, replyTo } = await asking([{ type: 'human' }])
      const { runs } = await stage.say(ann, room, 'Yes')
      expect(runs).toEqual([])
      expect(await replyTo()).toMatchObject({ timedOut: false, reply: { text: 'Yes', entityName: 'Ann' } })
      const [, asked, answer] = await stage.messagesIn(room)
      expect(asked).toMatchObject({ status: 'COMPLETE', text: 'Do you approve?' })
      expect(kinds(answer)).toEqual({ Ada: 'ANSWERED', Bob: 'NOT_ROUTED' })
      expect(answer.outcomes.find(({ kind }: Read) => kind === 'ANSWERED').run).toEqual({ id: runId })
      expect(await stage.runsOf(ada)).toHaveLength(1)
    })

    test('is asked for with a deadline, of whoever may post it', async () => {
      const { ann, room, replyTo } = await asking([{ type: 'human' }])
      const [call] = (await stage.ask(ann.client, PENDING)).pendingToolCalls
      expect(call).toMatchObject({ toolName: 'sendSpaceMessage', waitsFor: 'MESSAGE', status: 'RUNNING', input: null })
      expect(Date.parse(call.expiresAt) - Date.now()).toBeGreaterThan(30_000)
      expect(call.message).toMatchObject({ status: 'REQUIRES_ACTION', waitingCall: { id: call.id } })
      const submitted = await stage.ask(ann.client, SUBMIT, { input: { toolCallId: call.id, result: 'yes' } })
      expect(submitted).toMatchObject({ __typename: 'ConflictError', message: expect.stringContaining('post') })
      await stage.say(ann, room, 'Yes')
      expect(await replyTo()).toMatchObject({ timedOut: false })
      expect((await stage.ask(ann.client, PENDING)).pendingToolCalls).toEqual([])
      expect((await stage.messagesIn(room))[1].status).toBe('COMPLETE')
    })

    test('of an agent alone asks nobody else', async () => {
      const { ann, room } = await asking([{ type: 'agent' }])
      expect((await stage.ask(ann.client, PENDING)).pendingToolCalls).toEqual([])
      expect((await stage.messagesIn(room))[1].status).toBe('COMPLETE')
    })

    test('which mentions the waiter answers it and starts its run as well', async () => {
      const { ann, ada, room, replyTo } = await asking([{ type: 'human' }])
      const { runs } = await stage.say(ann, room, 'Yes, and look here', { mentionedAgentId: ada.id })
      expect(runs).toMatchObject([{ agent: { name: 'Ada' } }])
      expect(await replyTo()).toMatchObject({ reply: { text: 'Yes, and look here' } })
      expect(kinds((await stage.messagesIn(room))[2])).toMatchObject({ Ada: 'RUN' })
    })

    test('which does not meet the wait wakes as ever', async () => {
      const { ann, bob, room, replyTo } = await asking([{ type: 'entity', entityId: 'x' }, { type: 'agent' }])
      const { runs } = await stage.say(ann, room, 'Not me')
      expect(runs).toMatchObject([{ agent: { name: 'Ada' } }])
      parley.models.script(forAgent('Bob', steps([sayIn(room.id, 'Me.')])))
      await stage.ask(stage.admin, TRIGGER, { input: { agentId: bob.id, serviceName: 'test', payload: {} } })
      expect(await replyTo()).toMatchObject({ reply: { text: 'Me.', entityName: 'Bob' } })
    })

    test('and only shows a chart: its text is what it shows', async () => {
      const { bob, room, replyTo } = await asking([{ type: 'any' }])
      parley.models.script(forAgent('Bob', steps([show('showChart', room.id)])))
      await stage.ask(stage.admin, TRIGGER, { input: { agentId: bob.id, serviceName: 'test', payload: {} } })
      expect(await replyTo()).toMatchObject({
        timedOut: false,
        reply: { text: '[showChart: done → {"what":"the budget"}]', entityName: 'Bob' },
      })
    })

    test('in a space where every agent is woken by an agent wakes the others only', async () => {
      const ann = await stage.person('Ann')
      const [ada, bob, cem] = [await stage.bot('Ada'), await stage.bot('Bob'), await stage.bot('Cem')]
      const room = await stage.space('All', [ann, ada, bob, cem], { routing: 'BROADCAST' })
      const question = sayIn(room.id, 'Who?', { wait: { for: [{ type: 'entity', entityId: bob.id }], timeout: 60 } })
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([question]))))
      parley.models.script(forAgent('Bob', when(wokenBy('Who?'), steps([sayIn(room.id, 'I.')]))))
      const { runs } = await stage.say(ann, room, 'Begin')
      const waited = runs.find(({ agent }: Read) => agent.id === ada.id).id
      const answer = await until('Bob has answered', async () =>
        (await stage.messagesIn(room)).find(({ text, status }) => text === 'I.' && status === 'COMPLETE'),
      )
      expect(kinds(answer)).toEqual({ Ada: 'ANSWERED', Cem: 'RUN' })
      await stage.endedRuns(ada, 1)
      expect((await stage.runsOf(ada)).map(({ id }) => id)).toEqual([waited])
    })
  })

  describe('an agent that leaves a space', () => {
    const STATUS = `query ($id: ID!) { run(id: $id) { status stopReason } }`
    const LEAVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename ... on Error { message } } }`

    /** The agent is busy in one room while something waits for it in another, which it then leaves. */
    async function leaving(input: object) {
      const [ann, gate] = [await stage.person('Ann'), createDeferred()]
      const ada = await stage.bot('Ada', input)
      const [busy, left] = [await stage.space('Busy', [ann, ada]), await stage.space('Left', [ann, ada])]
      const prompts: string[] = []
      parley.models.script(
        forAgent('Ada', async ({ messages }) => {
          prompts.push(JSON.stringify(messages))
          await gate.promise
          return [{ text: 'Done.' }]
        }),
      )
      await stage.say(ann, busy, 'Keep busy')
      await until('Ada is busy', async () => prompts.length === 1)
      const { runs } = await stage.say(ann, left, 'THE-SECRET')
      const answer = await stage.ask(ann.client, LEAVE, { input: { spaceId: left.id, entityId: ada.id } })
      expect(answer.__typename).toBe('RemoveMemberPayload')
      const [said] = await stage.messagesIn(left)
      expect(said.outcomes).toMatchObject([{ agent: { name: 'Ada' }, kind: 'DROPPED' }])
      gate.resolve()
      await stage.say(ann, busy, 'And now?')
      await until('Ada goes on', async () => prompts.length >= 2)
      expect(prompts.join()).not.toContain('THE-SECRET')
      return { ada, runs }
    }

    test('its queued runs end CANCELED, GONE', async () => {
      const { runs } = await leaving({ maxConcurrentRuns: 1 })
      expect(await stage.ask(stage.admin, STATUS, { id: runs[0].id })).toEqual({
        status: 'CANCELED',
        stopReason: 'GONE',
      })
    })

    test('what waited in its inbox is DROPPED', async () => {
      const { runs } = await leaving({ mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
      expect(runs).toEqual([])
    })
  })

  test('whoever follows a space is told that a cycle has taken a message', async () => {
    const ann = await stage.person('Ann')
    const mia = await stage.bot('Mia', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const room = await stage.space('Room', [ann, mia])
    const live = ann.client.subscribe<Read, object>(UPDATES, { spaceId: room.id })
    await live.first((event: Read) => event.spaceMessages.__typename === 'SpaceSnapshot')
    await stage.say(ann, room, 'Hello')
    const updated = await live.first((event: Read) => event.spaceMessages.__typename === 'MessageUpdated')
    const [cycle] = await stage.endedRuns(mia, 1)
    expect(updated.spaceMessages.message.outcomes).toMatchObject([{ kind: 'INBOX', run: { id: cycle.id } }])
  })

  test("a wait in a chain's space that only its agents could answer is refused at once", async () => {
    const ann = await stage.person('Ann')
    const [ada, bob] = [await stage.bot('Ada'), await stage.bot('Bob')]
    const room = await stage.space('Chain', [ann, ada, bob], { routing: 'MENTION_CHAIN' })
    const wait = { for: [{ type: 'agent' }, { type: 'entity', entityId: bob.id }], timeout: 100 }
    parley.models.script(forAgent('Ada', steps([sayIn(room.id, 'Bob?', { wait })])))
    await stage.say(ann, room, 'Begin')
    const [run] = await stage.endedRuns(ada, 1)
    expect(run.toolCalls[0]).toMatchObject({ status: 'FAILED', output: { error: { code: 'NOBODY_CAN_ANSWER' } } })
  })

  test('null is a left-out argument: nothing is refused, and nothing said twice', async () => {
    const { ann, ada, bob, room } = await openRoom()
    const filled = sayIn(room.id, 'Hello', { mention: null, wait: null })
    const asking = sayIn(room.id, 'Well?', {
      wait: { for: [{ type: 'entity', entityId: bob.id }], timeout: 0.1 },
    })
    const reading = { toolCall: 'readSpaceMessages', input: { spaceId: room.id, limit: null } }
    parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([filled, reading], [asking]))))
    await stage.say(ann, room, 'Begin')
    const [run] = await stage.endedRuns(ada, 1)
    expect(run.toolCalls.map(({ status }: Read) => status)).toEqual(['DONE', 'DONE', 'DONE'])
    expect((await stage.messagesIn(room)).map(({ text, status }) => [text, status])).toEqual([
      ['Begin', 'COMPLETE'],
      ['Hello\n\nWell?', 'COMPLETE'],
    ])
  })
})

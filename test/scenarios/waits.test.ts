import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { DEFAULT_STACK } from '../support/application.ts'
import { forAgent, type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { playScenarios, type Read, type Stage, wokenBy } from '../support/stage.ts'
import { until } from '../support/until.ts'

/** The outcome of a message that wakes an agent that says nothing: while its run is active, and afterwards. */
const WOKEN = expect.stringMatching(/^(RUN|SKIPPED)$/)

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

describe('mentions on waiting message parts, and messages that are replies', () => {
  let parley: TestServer
  let stage: Stage

  playScenarios(DEFAULT_STACK, (opened) => {
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
    test('wakes its agent when the part is shown, and only once', async () => {
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

    test('wakes it even if an earlier part of the message waits, and the run is then stopped', async () => {
      const { ann, ada, bob, room } = await openRoom()
      const said = [show('confirm', room.id), sayIn(room.id, 'Look at this', { mention: bob.id })]
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps(said))))
      const { runs } = await stage.say(ann, room, 'Begin')
      await stage.endedRuns(bob, 1)
      await stage.ask(ann.client, STOP, { input: { runId: runs[0].id } })
      await stage.endedRuns(ada, 1)
      const asked = (await stage.messagesIn(room))[1]
      expect(kinds(asked)).toEqual({ Bob: 'SKIPPED' })
    })
  })

  describe('a reply to a wait', () => {
    /** Ada has asked a question and waits. Returns her final result. */
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

    test('is ANSWERED with the waiting run, and starts no second one', async () => {
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

    test('has a deadline, and is expected from those who may post it', async () => {
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

    test('expected from an agent is not expected from anyone else', async () => {
      const { ann, room } = await asking([{ type: 'agent' }])
      expect((await stage.ask(ann.client, PENDING)).pendingToolCalls).toEqual([])
      expect((await stage.messagesIn(room))[1].status).toBe('COMPLETE')
    })

    test('a reply that mentions the waiting agent also starts a run of that agent', async () => {
      const { ann, ada, room, replyTo } = await asking([{ type: 'human' }])
      const { runs } = await stage.say(ann, room, 'Yes, and look here', { mentionedAgentId: ada.id })
      expect(runs).toMatchObject([{ agent: { name: 'Ada' } }])
      expect(await replyTo()).toMatchObject({ reply: { text: 'Yes, and look here' } })
      expect(kinds((await stage.messagesIn(room))[2])).toMatchObject({ Ada: WOKEN })
    })

    test('must match the wait; any other message wakes as usual', async () => {
      const { ann, bob, room, replyTo } = await asking([{ type: 'entity', entityId: 'x' }, { type: 'agent' }])
      const { runs } = await stage.say(ann, room, 'Not me')
      expect(runs).toMatchObject([{ agent: { name: 'Ada' } }])
      parley.models.script(forAgent('Bob', steps([sayIn(room.id, 'Me.')])))
      await stage.ask(stage.admin, TRIGGER, { input: { agentId: bob.id, serviceName: 'test', payload: {} } })
      expect(await replyTo()).toMatchObject({ reply: { text: 'Me.', entityName: 'Bob' } })
    })

    test('may be only a chart: the reply text describes it', async () => {
      const { bob, room, replyTo } = await asking([{ type: 'any' }])
      parley.models.script(forAgent('Bob', steps([show('showChart', room.id)])))
      await stage.ask(stage.admin, TRIGGER, { input: { agentId: bob.id, serviceName: 'test', payload: {} } })
      expect(await replyTo()).toMatchObject({
        timedOut: false,
        reply: { text: '[showChart: done → {"what":"the budget"}]', entityName: 'Bob' },
      })
    })

    test('wakes only the other agents, in a space where agents wake each other', async () => {
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
      expect(kinds(answer)).toEqual({ Ada: 'ANSWERED', Cem: WOKEN })
      await stage.endedRuns(ada, 1)
      expect((await stage.runsOf(ada)).map(({ id }) => id)).toEqual([waited])
    })
  })

  describe('an agent that leaves a space', () => {
    const STATUS = `query ($id: ID!) { run(id: $id) { status stopReason } }`
    const LEAVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename ... on Error { message } } }`

    /** The agent is busy in one room, while an event waits for it in another, which the agent then leaves. */
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
      await until('Ada continues', async () => prompts.length >= 2)
      expect(prompts.join()).not.toContain('THE-SECRET')
      return { ada, runs }
    }

    test('has its queued runs canceled, 50 by the removal and the others by a sweep', async () => {
      const [ann, gate] = [await stage.person('Ann'), createDeferred()]
      const ada = await stage.bot('Ada', { maxConcurrentRuns: 1 })
      const [busy, left] = [await stage.space('Busy', [ann, ada]), await stage.space('Left', [ann, ada])]
      parley.models.script(forAgent('Ada', () => [{ gate: gate.promise }, { text: 'Done.' }]))
      await stage.say(ann, busy, 'Keep busy')
      await until('Ada is busy', () => parley.models.requests.length > 0)
      const { runs } = await stage.say(ann, left, 'Hello')
      const { prisma } = parley.app.platform.db
      await prisma.$executeRaw`
        INSERT INTO "Run" SELECT (jsonb_populate_record(r, to_jsonb(r) || jsonb_build_object('id', r.id || '-' || n, 'dedupKey', NULL))).*
        FROM "Run" r CROSS JOIN generate_series(1, 59) n WHERE r.id = ${runs[0].id}`
      const queued = () => prisma.run.count({ where: { triggerSpaceId: left.id, status: 'QUEUED' } })
      expect(await queued()).toBe(60)
      const answer = await stage.ask(ann.client, LEAVE, { input: { spaceId: left.id, entityId: ada.id } })
      expect(answer.__typename).toBe('RemoveMemberPayload')
      expect(await queued()).toBeLessThanOrEqual(10)
      await until('a sweep has canceled the others', async () => (await queued()) === 0)
      gate.resolve()
    })

    test('has its queued runs end as CANCELED, GONE', async () => {
      const { runs } = await leaving({ maxConcurrentRuns: 1 })
      expect(await stage.ask(stage.admin, STATUS, { id: runs[0].id })).toEqual({
        status: 'CANCELED',
        stopReason: 'GONE',
      })
    })

    test('has its inbox events from there DROPPED', async () => {
      const { runs } = await leaving({ mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
      expect(runs).toEqual([])
    })

    test('gets no reply from messages that are posted there later', async () => {
      const ann = await stage.person('Ann')
      const ada = await stage.bot('Ada')
      const [home, left] = [await stage.space('Home', [ann, ada]), await stage.space('Left', [ann, ada])]
      const question = sayIn(left.id, 'Who knows?', { wait: { for: [{ type: 'human' }], timeout: 3 } })
      parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([question], [{ text: 'Nobody.' }]))))
      await stage.say(ann, home, 'Begin')
      await until('Ada waits', async () => (await stage.messagesIn(left))[0]?.status === 'REQUIRES_ACTION')
      await stage.ask(ann.client, LEAVE, { input: { spaceId: left.id, entityId: ada.id } })
      await stage.say(ann, left, 'THE-SECRET')
      const [run] = await stage.endedRuns(ada, 1)
      expect(run.toolCalls[0].output).toMatchObject({ timedOut: true, reply: null })
    })
  })

  test('followers of a space receive an update when a cycle claims each message, and when it fails', async () => {
    const ann = await stage.person('Ann')
    const mia = await stage.bot('Mia', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const room = await stage.space('Room', [ann, mia], { routing: 'BROADCAST' })
    const held = createDeferred()
    const brokenOff: ModelAction[] = [{ toolCall: 'get_my_runs', input: {} }, { finish: 'length' }]
    parley.models.script(() => [{ gate: held.promise }, ...brokenOff])
    const live = ann.client.subscribe<Read, object>(UPDATES, { spaceId: room.id })
    await live.first((event: Read) => event.spaceMessages.__typename === 'SpaceSnapshot')
    const { agents } = parley.app.domain
    await agents.update(parley.admin, { id: mia.id, paused: true })
    for (const text of ['One', 'Two']) await stage.say(ann, room, text)
    await agents.update(parley.admin, { id: mia.id, paused: false })
    const updates = () => live.seen.flatMap(({ spaceMessages: { message } }) => (message ? message.outcomes : []))
    await until(
      'the claims of the messages are published',
      () => updates().filter(({ run }) => run !== null).length === 2,
    )
    const before = updates().length
    held.resolve()
    const [cycle] = await stage.endedRuns(mia, 1)
    await until('the failure of the messages is published', () => updates().length >= before + 2)
    const run = { id: cycle.id }
    const [taken, failed] = ['INBOX', 'FAILED'].map((kind) => ({ kind, run }))
    expect(updates().slice(before - 2)).toEqual([taken, taken, failed, failed])
  })

  test('an inbox event that is committed while its agent leaves is dropped unread', async () => {
    const ann = await stage.person('Ann')
    const mia = await stage.bot('Mia', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const room = await stage.space('Room', [ann, mia], { routing: 'BROADCAST' })
    await stage.say(ann, room, 'Hello')
    await stage.endedRuns(mia, 1)
    const { inboxEvent } = parley.app.platform.db.prisma
    const known = await inboxEvent.findFirstOrThrow({ where: { agentId: mia.id } })
    const leaving = 'mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }'
    await stage.ask(ann.client, leaving, { input: { spaceId: room.id, entityId: mia.id } })
    const { sentMessage } = await stage.say(ann, room, 'SECRET')
    // Commits the event like a process that had read the membership just before.
    const payload = { ...(known.payload as object), content: 'SECRET' }
    const { wokenBy: _, ...row } = { ...known, id: `${known.id}x`, payload, runId: null, doneAt: null }
    await inboxEvent.create({ data: { ...row, messageId: sentMessage.id, dedupKey: sentMessage.id } })
    const input = { agentId: mia.id, serviceName: 'clock', payload: { tick: 1 } }
    await stage.ask(stage.admin, TRIGGER, { input })
    await stage.endedRuns(mia, 2)
    expect(JSON.stringify(parley.models.requests.map(({ body }) => body))).not.toContain('SECRET')
    await until('the event is dropped', async () => {
      const [outcome] = (await stage.messagesIn(room)).find(({ text }) => text === 'SECRET').outcomes
      return outcome?.kind === 'DROPPED' && outcome.agent.id === mia.id
    })
  })

  test('get_my_runs lists the inbox events of a cycle without their content, and nothing of a space that the agent has left', async () => {
    const ann = await stage.person('Ann')
    const mia = await stage.bot('Mia', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const room = await stage.space('Room', [ann, mia], { routing: 'BROADCAST' })
    const look = [{ toolCall: 'get_my_runs', input: { status: 'completed' } }]
    const tick = async (count: number) => {
      const input = { agentId: mia.id, serviceName: 'clock', payload: { tick: count } }
      await stage.ask(stage.admin, TRIGGER, { input })
      const run = (await stage.endedRuns(mia, count)).at(-1)
      return run.toolCalls[0].output.runs.map(({ triggerSummary }: Read) => triggerSummary)
    }
    await stage.say(ann, room, 'Hello')
    await stage.endedRuns(mia, 1)
    parley.models.script((request) => (request.messages.at(-1)?.role === 'tool' ? [{ text: 'Seen.' }] : look))
    expect(await tick(2)).toEqual([`1 inbox event: a message from "Ann" (human) in "Room" (id: ${room.id})`])
    await stage.ask(
      ann.client,
      'mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }',
      {
        input: { spaceId: room.id, entityId: mia.id },
      },
    )
    expect(await tick(3)).toEqual([
      '1 inbox event: the service "clock"',
      '1 inbox event: a message in a space that you are no longer a member of',
    ])
  })

  test('a wait in a chain’s space that only its own agents could answer is refused at once', async () => {
    const ann = await stage.person('Ann')
    const [ada, bob] = [await stage.bot('Ada'), await stage.bot('Bob')]
    const room = await stage.space('Chain', [ann, ada, bob], { routing: 'MENTION_CHAIN' })
    const wait = { for: [{ type: 'agent' }, { type: 'entity', entityId: bob.id }], timeout: 100 }
    parley.models.script(forAgent('Ada', steps([sayIn(room.id, 'Bob?', { wait })])))
    await stage.say(ann, room, 'Begin')
    const [run] = await stage.endedRuns(ada, 1)
    expect(run.toolCalls[0]).toMatchObject({ status: 'FAILED', output: { error: { code: 'NOBODY_CAN_ANSWER' } } })
  })

  test('a wait for a person is accepted in a space with any other members', async () => {
    const [ann, ada] = [await stage.person('Ann'), await stage.bot('Ada')]
    const crowd = await Promise.all(Array.from({ length: 100 }, (_, n) => parley.human(`Guest ${n}`)))
    const zoe = await stage.person('Zoe')
    const guests = crowd.map(({ id }, n) => ({ id, name: `Guest ${n}` }))
    const room = await stage.space('Chain', [ann, ada, ...guests, zoe], { routing: 'MENTION_CHAIN' })
    const wait = { for: [{ type: 'entity', entityId: zoe.id }], timeout: 100 }
    parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([sayIn(room.id, 'Zoe?', { wait })]))))
    await stage.say(ann, room, 'Begin')
    await until('she is asked', async () => (await stage.messagesIn(room))[1]?.status === 'REQUIRES_ACTION')
    await stage.say(zoe, room, 'Yes')
    const [run] = await stage.endedRuns(ada, 1)
    expect(run.toolCalls[0]).toMatchObject({ status: 'DONE', output: { reply: { text: 'Yes', entityName: 'Zoe' } } })
  })

  test('a reply that arrives before the question is complete answers it, and stops the run that it had started', async () => {
    const { ann, ada, room } = await openRoom()
    const gate = createDeferred()
    const chunks = [
      `{"spaceId":"${room.id}","text":"Which colo`,
      gate.promise,
      'ur?","wait":{"for":[{"type":"human"}],"timeout":60}}',
    ]
    const asking: ModelAction = { toolCall: 'sendSpaceMessage', input: '', chunks }
    parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([asking], [{ text: 'Green it is.' }]))))
    parley.models.script(
      forAgent(
        'Ada',
        when(wokenBy('"Green"'), () => [{ hang: true }]),
      ),
    )
    await stage.say(ann, room, 'Begin')
    await until('the question streams', async () => (await stage.messagesIn(room)).length === 2)
    const { runs } = await stage.say(ann, room, 'Green')
    await parley.models.request(wokenBy('"Green"'))
    gate.resolve()
    const [asked, woken] = await stage.endedRuns(ada, 2)
    expect(asked.toolCalls[0].output).toMatchObject({ timedOut: false, reply: { text: 'Green' } })
    expect([woken.id, woken.status]).toEqual([runs[0].id, 'CANCELED'])
    const reply = (await stage.messagesIn(room)).find(({ text }) => text === 'Green')
    expect(reply.outcomes.find(({ agent }: Read) => agent.id === ada.id)).toMatchObject({
      kind: 'ANSWERED',
      run: { id: asked.id },
    })
  })

  describe('a refused call', () => {
    type Faulty = (about: { ann: Read; bob: Read }) => object
    const faults: [string, Faulty, string][] = [
      ['mentions a person', ({ ann }) => ({ mention: ann.id }), 'BAD_INPUT'],
      ['has a mention that is not an id', () => ({ mention: 5 }), 'BAD_INPUT'],
      ['waits for an entity that it does not name', () => ({ wait: { for: [{ type: 'entity' }] } }), 'BAD_INPUT'],
      ['waits for nobody', () => ({ wait: { for: [] } }), 'BAD_INPUT'],
      ['waits for an entity that cannot answer', () => ({ wait: { for: [{ type: 'agent' }] } }), 'NOBODY_CAN_ANSWER'],
    ]
    const HEARD = 'People have seen what you wrote'

    async function openChain() {
      const ann = await stage.person('Ann')
      const [ada, bob] = [await stage.bot('Ada'), await stage.bot('Bob')]
      const room = await stage.space('Chain', [ann, ada, bob], { routing: 'MENTION_CHAIN' })
      const told = async () => {
        const { messages } = await parley.models.request(({ messages }) => messages.some(({ role }) => role === 'tool'))
        return messages.find(({ role }) => role === 'tool')?.text ?? ''
      }
      return { ann, ada, bob, room, told }
    }

    test.each(faults)('because it %s, before its text: no text streams', async (_, faulty, code) => {
      const { ann, ada, room, told, ...others } = await openChain()
      const input = { spaceId: room.id, ...faulty({ ann, ...others }), text: 'The budget is 50,000.' }
      const again = sayIn(room.id, 'The budget is 50,000.')
      parley.models.script(forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input }], [again])))
      await stage.say(ann, room, 'Begin')
      const [run] = await stage.endedRuns(ada, 1)
      expect(run.toolCalls[0]).toMatchObject({ status: 'FAILED', output: { error: { code } } })
      expect((await stage.messagesIn(room)).map(({ text, status }) => [text, status])).toEqual([
        ['Begin', 'COMPLETE'],
        ['The budget is 50,000.', 'COMPLETE'],
      ])
      expect(await told()).not.toContain(HEARD)
    })

    test.each(faults.slice(0, 3))(
      'because it %s, after its text: the text stays INTERRUPTED, and the model gets an error',
      async (_, faulty, code) => {
        const { ann, ada, room, told, ...others } = await openChain()
        const input = { spaceId: room.id, text: 'The budget is 50,000.', ...faulty({ ann, ...others }) }
        parley.models.script(forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input }], [{ text: 'Enough.' }])))
        await stage.say(ann, room, 'Begin')
        const [run] = await stage.endedRuns(ada, 1)
        expect(run.toolCalls[0]).toMatchObject({ status: 'FAILED', output: { error: { code } } })
        expect((await stage.messagesIn(room)).map(({ text, status }) => [text, status])).toEqual([
          ['Begin', 'COMPLETE'],
          ['The budget is 50,000.', 'INTERRUPTED'],
        ])
        expect(await told()).toContain(HEARD)
      },
    )

    test('because its input is not JSON: the model receives the part that people have seen', async () => {
      const { ann, ada, room, told } = await openChain()
      const input = `{"spaceId":"${room.id}","text":"The bud`
      parley.models.script(forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input }], [{ text: 'Enough.' }])))
      await stage.say(ann, room, 'Begin')
      await stage.endedRuns(ada, 1)
      expect((await stage.messagesIn(room)).at(-1)).toMatchObject({ text: 'The bud', status: 'INTERRUPTED' })
      expect(await told()).toContain(HEARD)
    })
  })

  test('null is an omitted argument: nothing is refused or posted twice', async () => {
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

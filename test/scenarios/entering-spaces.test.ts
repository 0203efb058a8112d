import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { forAgent, type ModelAction, type ModelRequest, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, playScenarios, type Read, resultsIn, type Stage, wokenBy } from '../support/stage.ts'
import { enter, say as says } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The examples of requirement 003, with its values, as people and operators see them through GraphQL.

const SPACE_EVENTS = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessagePosted { message { id text sender { name } status } }
  ... on MessageTextDelta { messageId delta }
  ... on MessageFinished { message { id text status } } } }`
const RUN_EVENTS = `subscription ($runId: ID!) { runEvents(runId: $runId) { __typename
  ... on RunStarted { run { triggerType activeSpace { id } } }
  ... on RunSpaceEntered { spaceId space { name } } } }`
const TOOLS = [
  'enter_space',
  'send_message',
  'read_messages',
  'get_my_runs',
  'stop_run',
  'set_memories',
  'delete_memories',
  'set_goals',
  'delete_goals',
  'set_plans',
  'get_plans',
  'delete_plans',
  'edit_message',
  'delete_message',
  'react',
  'search_messages',
  'read_file',
  'send_file',
]
const ORIGINS = `query ($id: ID!) { space(id: $id) { messages { edges { node { text
  origin { triggerType triggerName triggerSpaceId triggerSpaceName triggerSenderName triggerMessage } } } } } }`
const KNOWLEDGE = 'query ($id: ID!) { agent(id: $id) { internals { memories { key value } } } }'
const PLAN = `mutation ($input: CreatePlanInput!) {
  createPlan(input: $input) { ... on CreatePlanPayload { plan { id nextRunAt } } ... on Error { message } } }`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } } }`
const REMOVE = `mutation ($input: RemoveMemberInput!) {
  removeMember(input: $input) { __typename ... on Error { message } } }`

describe.each(RULE_STACKS)("003's examples through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let stage: Stage

  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const agent = (name: string, more: object = {}) => stage.bot(name, { toolset: 'ACTIVE_SPACE', ...more })
  const space = (name: string, members: Named[], more: object = {}) =>
    stage.space(name, members, { routing: 'BROADCAST', ...more })
  const requestAt = (name: string, step: number) =>
    parley.models.request((request) => request.instructions.startsWith(`You are ${name},`) && request.step === step)

  test.each(CIRCLES)(
    'space switching, in $circle: members see messages stream in the space entered last, and nothing of the switch',
    async ({ confidential, people }) => {
      const [husam, sarah] = [await stage.person('Husam'), await stage.person('Sarah')]
      const bot = await agent('Reporter')
      const both = [husam, sarah]
      const a = await space('Space A', [...people([husam], both), bot], { confidential })
      const b = await space('Space B', [...people([sarah], both), bot], { confidential })
      parley.models.script(
        forAgent(
          'Reporter',
          steps(
            [says("Here's the report")],
            [enter(b)],
            [says('FYI, the report is ready')],
            [enter(a), says('I also notified the team in Space B')],
          ),
        ),
      )
      const inA = husam.client.subscribe<Read, object>(SPACE_EVENTS, { spaceId: a.id })
      const inB = sarah.client.subscribe<Read, object>(SPACE_EVENTS, { spaceId: b.id })
      for (const events of [inA, inB]) await events.first((event) => event.spaceMessages.__typename === 'SpaceSnapshot')
      const { runs } = await stage.say(husam, a, 'Send me the report, and tell the team')
      const [told, toldHusam] = [stage.admin, husam.client].map((client) =>
        client.subscribe<Read, object>(RUN_EVENTS, { runId: runs[0].id }),
      )
      for (const events of [told, toldHusam]) expect(await events?.ended).toBeNull()
      await inA.first((event) => event.spaceMessages.message?.text === 'I also notified the team in Space B')

      const finished = (events: typeof inA) =>
        events.seen.flatMap(({ spaceMessages: { __typename, message } }) =>
          __typename === 'MessageFinished' ? [`${message.status}: ${message.text}`] : [],
        )
      await until('both spaces have all events', () => finished(inA).length === 2 && finished(inB).length === 1)
      expect(finished(inA)).toEqual(["COMPLETE: Here's the report", 'COMPLETE: I also notified the team in Space B'])
      expect(finished(inB)).toEqual(['COMPLETE: FYI, the report is ready'])
      const streamed = (events: typeof inA) =>
        events.seen.map(({ spaceMessages }) => spaceMessages.delta ?? '').join('')
      expect(streamed(inA)).toBe("Here's the reportI also notified the team in Space B")
      expect(streamed(inB)).toBe('FYI, the report is ready')
      const kinds = new Set([...inA.seen, ...inB.seen].map(({ spaceMessages }) => spaceMessages.__typename))
      const ofMessages = [
        'MessagePosted',
        'MessageTextDelta',
        'MessagePartChanged',
        'MessageUpdated',
        'MessageFinished',
      ]
      expect([...kinds].filter((kind) => kind !== 'SpaceSnapshot' && !ofMessages.includes(kind))).toEqual([])
      const entered = (events: typeof told) =>
        events?.seen.flatMap(({ runEvents: { spaceId, space } }) => (spaceId ? [[spaceId, space]] : []))
      const inSpaces = (isInB: boolean) => [
        ...(isInB ? [[b.id, { name: 'Space B' }]] : []),
        [a.id, { name: 'Space A' }],
      ]
      expect(entered(told)).toEqual(inSpaces(true))
      expect(entered(toldHusam)).toEqual(inSpaces(people([], [husam]).length > 0))
    },
  )

  test.each(CIRCLES)(
    'a visible tool, in $circle: it appears in the space entered last, not in the trigger’s; only enter_space has a space argument',
    async ({ confidential, people }) => {
      const [husam, sarah] = [await stage.person('Husam'), await stage.person('Sarah')]
      const chart = { name: 'chart', description: 'Draws.', inputSchema: { type: 'object' }, execution: 'INTERNAL' }
      const bot = await agent('Painter', { tools: [{ ...chart, visible: true }] })
      const both = [husam, sarah]
      const a = await space('Here', [...people([husam], both), bot], { confidential })
      const b = await space('There', [...people([sarah], both), bot], { confidential })
      parley.models.script(forAgent('Painter', steps([enter(b)], [{ toolCall: 'chart', input: { bars: [1] } }])))
      await stage.say(husam, a, 'Draw it over there')
      await stage.endedRuns(bot, 1)
      expect((await stage.messagesIn(a)).map(({ sender }) => sender.name)).toEqual(['Husam'])
      const toolCall = { toolName: 'chart', status: 'DONE', input: { bars: [1] } }
      expect(await stage.messagesIn(b)).toMatchObject([{ sender: { name: 'Painter' }, parts: [{ toolCall }] }])
      const { toolNames, body } = await requestAt('Painter', 0)
      // The agent is alone with one human, so nobody else could answer.
      const skip = confidential ? ['skip'] : []
      expect(toolNames.toSorted()).toEqual([...TOOLS, ...skip, 'chart'].toSorted())
      expect(JSON.stringify(body.tools)).not.toContain('targetSpaceId')
    },
  )

  test.each(CIRCLES)(
    "the agent's view of spaces, in $circle: a line for each, with members in order of joining, and [ACTIVE] for the current one",
    async ({ confidential, people }) => {
      const [husam, ahmad, sarah] = [
        await stage.person('Husam'),
        await stage.person('Ahmad'),
        await stage.person('Sarah'),
      ]
      const bot = await agent('Knowing')
      const all = [husam, ahmad, sarah]
      const inSpaces = {
        design: [...people([husam, ahmad], all), bot],
        updates: [bot, ...people([sarah], all)],
        alone: [...people([husam], all), bot],
      }
      const design = await space('Design Team', inSpaces.design, { confidential })
      const updates = await space('Dev Updates', inSpaces.updates, { confidential })
      const alone = await space('1:1 with Husam', inSpaces.alone, { confidential })
      const line = (members: Named[]) =>
        members.map(({ id, name }) => (id === bot.id ? 'You (agent)' : `"${name}" (human)`)).join(', ')
      await stage.say(husam, alone, 'Hello')
      const { instructions } = await requestAt('Knowing', 0)
      expect(instructions).toContain(
        [
          'YOUR SPACES:',
          `- "Design Team" (id: ${design.id}) — Members: ${line(inSpaces.design)}`,
          `- "Dev Updates" (id: ${updates.id}) — Members: ${line(inSpaces.updates)}`,
          `- "1:1 with Husam" (id: ${alone.id}) [ACTIVE] — Members: ${line(inSpaces.alone)}`,
          '',
        ].join('\n'),
      )
    },
  )

  test('reading earlier history: { offset: 50, limit: 50 } are the 50 before the displayed ones; the next run recalls a note about them', async () => {
    const husam = await stage.person('Husam')
    const bot = await agent('Archivist')
    const room = await space('Design Team', [husam])
    for (let n = 1; n <= 110; n++) await stage.say(husam, room, `line ${n} of many`)
    await parley.app.domain.members.add(parley.admin, { spaceId: room.id, entityId: bot.id })
    const memories = [{ key: 'first_decision', value: 'Line 12 says how it began.' }]
    const linesIn = (text: string) => [...text.matchAll(/"(?:text":")?line (\d+) of many"/g)].map(([, n]) => Number(n))
    parley.models.script(
      forAgent(
        'Archivist',
        when(
          wokenBy('How did it begin?'),
          steps(
            [{ toolCall: 'read_messages', input: { offset: 50, limit: 50 } }],
            [{ toolCall: 'set_memories', input: { memories } }],
            [says('With line 12.')],
          ),
        ),
      ),
    )
    await stage.say(husam, room, 'How did it begin?')
    await stage.endedRuns(bot, 1)
    const from = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n)
    const shown = (await requestAt('Archivist', 0)).messages.at(-1)?.text.split('RECENT MESSAGES')[1] ?? ''
    expect(linesIn(shown)).toEqual(from(62, 49)) // The list also contains the question itself.
    const [page] = resultsIn(await requestAt('Archivist', 1))
    expect(page.map(({ text }: Read) => text)).toEqual(from(12, 50).map((n) => `line ${n} of many`))
    expect((await stage.ask(stage.admin, KNOWLEDGE, { id: bot.id })).internals.memories).toEqual(memories)
    await stage.say(husam, room, 'Thanks')
    const next = await parley.models.request(wokenBy('Thanks'))
    expect(next.instructions).toContain('YOUR MEMORIES:\n- "first_decision": "Line 12 says how it began."')
    expect(next.instructions).toContain('Store what you will need again with set_memories')
  })

  describe('cross-space origin context', () => {
    test.each(CIRCLES)(
      'in $circle, people and agents of the trigger’s space, including the sender, learn why a message was sent; others only that it came from elsewhere',
      async ({ confidential, people }) => {
        const [husam, sarah] = [await stage.person('Husam'), await stage.person('Sarah')]
        const both = [husam, sarah]
        const [courier, insider, outsider] = [await agent('Courier'), await agent('Insider'), await agent('Outsider')]
        const design = await space('Design Team', [...people([husam], both), courier, insider], { confidential })
        const channel = await space('Dev channel', [...both, courier, insider, outsider], { confidential })
        const order = `Send the report to the dev channel${', please'.repeat(200)}`
        const read: ModelAction = { toolCall: 'read_messages', input: {} }
        const reads = when(wokenBy('"What was that?"'), steps([read]))
        parley.models.script(
          forAgent('Courier', when(wokenBy(order), steps([enter(channel)], [says('The report is ready')]))),
        )
        for (const name of ['Courier', 'Insider', 'Outsider']) parley.models.script(forAgent(name, reads))
        await stage.say(husam, design, order)
        await stage.endedRuns(courier, 1)
        await stage.say(sarah, channel, 'What was that?')

        const origin = {
          triggerSpaceId: design.id,
          triggerSpaceName: 'Design Team',
          triggerSenderName: 'Husam',
          triggerMessage: order,
        }
        const unknown = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
        const seenBy = async ({ client }: typeof husam) =>
          (await stage.ask(client, ORIGINS, { id: channel.id })).messages.edges[0].node.origin
        const kind = { triggerType: 'SPACE_MESSAGE', triggerName: null }
        expect(await seenBy(husam)).toEqual({ ...kind, ...origin })
        expect(await seenBy(sarah)).toEqual({ ...kind, ...(confidential ? origin : unknown) })

        const readBy = async (name: string) => {
          const isReading = (request: ModelRequest) => wokenBy('"What was that?"')(request) && request.step === 1
          const request = await parley.models.request(
            (candidate) => candidate.instructions.startsWith(`You are ${name},`) && isReading(candidate),
          )
          return resultsIn(request)[0].find(({ text }: Read) => text === 'The report is ready').origin
        }
        // The agent's prompt contains the first 1,000 characters of the text.
        const triggerMessage = `${order.slice(0, 1000)}… (${order.length - 1000} more characters)`
        for (const name of ['Insider', 'Courier'])
          expect(await readBy(name)).toEqual({ triggerType: 'space_message', ...origin, triggerMessage })
        expect(await readBy('Outsider')).toEqual({ triggerType: 'space_message' })
      },
    )
  })

  test('automatic space entry: a run for a message starts in its space; a run for a plan or a service in none', async () => {
    const husam = await stage.person('Husam')
    const bot = await agent('Starter')
    const room = await space('Design Team', [husam, bot])
    const { runs } = await stage.say(husam, room, 'Hello')
    const plan = { name: 'Morning', instruction: 'Greet the team.', schedule: { afterSeconds: 1 } }
    await stage.ask(stage.admin, PLAN, { input: { agentId: bot.id, ...plan } })
    const call = { agentId: bot.id, serviceName: 'jira', payload: { ticket: 'PROJ-123' } }
    const { run } = await stage.ask(stage.admin, TRIGGER, { input: call })
    const ended = await stage.endedRuns(bot, 3)
    const planned = ended.find(({ triggerType }) => triggerType === 'PLAN')
    expect(planned?.triggerSummary).toBe('The plan "Morning": "Greet the team."')
    const begins = async (runId: string) => {
      const events = stage.admin.subscribe<Read, object>(RUN_EVENTS, { runId })
      const { runEvents } = await events.first((event) => event.runEvents.__typename === 'RunStarted')
      return runEvents.run
    }
    expect(await begins(runs[0].id)).toEqual({ triggerType: 'SPACE_MESSAGE', activeSpace: { id: room.id } })
    expect(await begins(planned.id)).toEqual({ triggerType: 'PLAN', activeSpace: null })
    expect(await begins(run.id)).toEqual({ triggerType: 'SERVICE', activeSpace: null })
  })

  test('membership validation: an agent that is removed during its run can no longer post or read there', async () => {
    const husam = await stage.person('Husam')
    const bot = await agent('Leaver')
    const room = await space('Design Team', [husam, bot])
    parley.models.script(
      forAgent('Leaver', async (request) => {
        if (request.step === 1) {
          await stage.ask(husam.client, REMOVE, { input: { spaceId: room.id, entityId: bot.id } })
          await stage.say(husam, room, 'CANARY-4711 is our launch code')
        }
        return steps(
          [says('Hello')],
          [says('Still here?')],
          [{ toolCall: 'read_messages', input: {} }],
          [enter(room)],
        )(request) as ModelAction[]
      }),
    )
    await stage.say(husam, room, 'Who is there?')
    await stage.endedRuns(bot, 1)
    const [hello, ...refused] = resultsIn(await requestAt('Leaver', 4))
    expect(hello).toMatchObject({ success: true })
    expect(refused.map(({ error }) => error.code)).toEqual(['NOT_A_MEMBER', 'NOT_A_MEMBER', 'NOT_A_MEMBER'])
    expect((await stage.messagesIn(room)).map(({ text }) => text)).toEqual([
      'Who is there?',
      'Hello',
      'CANARY-4711 is our launch code',
    ])
    expect(JSON.stringify(parley.models.requests.map(({ body }) => body))).not.toContain('CANARY-4711')
  })
})

import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { forAgent, type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import {
  type Named,
  type Person,
  playScenarios,
  promptOf,
  type Read,
  resultsIn,
  type Stage,
  wokenBy,
} from '../support/stage.ts'
import { until } from '../support/until.ts'

// The usage patterns of sendSpaceMessage in requirement 000, the silent handoff, and agents that wait for each other, through
// GraphQL.

const SPACE_EVENTS = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessagePosted { message { id sender { name } } } } }`
const PROMPTS = `query ($id: ID!) { run(id: $id) { internals { steps { edges { node { instructions messages activeTools } } } } } }`
const CHART = {
  name: 'showChart',
  description: 'Shows a chart.',
  inputSchema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
  execution: 'INTERNAL',
  visible: true,
}

interface Cast {
  husam: Person
  ahmad: Person
  ada: Named
  finance: Named
  hr: Named
  room: Named
}

describe.each(RULE_STACKS)("000's usage patterns through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let stage: Stage

  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  /** Creates Husam, Ahmad, the admin agent Ada, a Finance Agent and an HR Agent in a space under ADMIN routing. */
  async function openRoom(more: object = {}): Promise<Cast> {
    const [husam, ahmad] = [await stage.person('Husam'), await stage.person('Ahmad')]
    const [ada, finance, hr] = [await stage.bot('Ada'), await stage.bot('Finance Agent'), await stage.bot('HR Agent')]
    const room = await stage.space('Space X', [husam, ahmad, ada, finance, hr], more)
    return { husam, ahmad, ada, finance, hr, room }
  }

  const send = ({ id: spaceId }: Named, text: string, more: object = {}): ModelAction => ({
    toolCall: 'sendSpaceMessage',
    input: { spaceId, text, ...more },
  })
  const conversation = async (room: Named) =>
    (await stage.messagesIn(room)).map(
      ({ sender, mentionedAgent, text }) =>
        `${sender.name}${mentionedAgent ? ` → ${mentionedAgent.name}` : ''}: ${text}`,
    )

  /** Husam posts "Begin", and Ada sends the message. Returns the result once her run has ended. */
  async function pattern(
    cast: Cast,
    { text, more = {}, meanwhile }: { text: string; more?: object; meanwhile?: () => Promise<unknown> },
  ) {
    const { husam, ada, room } = cast
    parley.models.script(forAgent('Ada', when(wokenBy('Begin'), steps([send(room, text, more)], [{ text: 'Noted.' }]))))
    const { runs } = await stage.say(husam, room, 'Begin')
    if (meanwhile !== undefined) {
      await until('the question is posted, and its run still runs', async () => {
        const question = (await stage.messagesIn(room))[1]
        const [asking] = await stage.runsOf(ada)
        return question?.status !== 'STREAMING' && question?.text === text && asking.status === 'RUNNING'
      })
      await meanwhile()
    }
    const run = await until('the run of Ada has ended', async () =>
      (await stage.runsOf(ada)).find(({ id, status }) => id === runs[0].id && status === 'COMPLETED'),
    )
    const message = (await stage.messagesIn(room))[1]
    expect(message).toMatchObject({ text, status: 'COMPLETE', run: { id: run.id } })
    expect(run.toolCalls[0].output).toMatchObject({ messageId: message.id, sent: true })
    return { run, message, output: run.toolCalls[0].output }
  }

  const wakes = ({ outcomes }: Read): string[] =>
    outcomes.flatMap(({ agent, kind }: Read) => (kind === 'RUN' ? [agent.name] : []))

  test('simple response to a human: posted, no agent is triggered, nothing blocks', async () => {
    const cast = await openRoom()
    const { output, message } = await pattern(cast, { text: "Hello! Here's your report." })
    expect(output).toEqual({ messageId: message.id, sent: true })
    expect(wakes(message)).toEqual([])
    expect(await conversation(cast.room)).toEqual(['Husam: Begin', "Ada: Hello! Here's your report."])
  })

  test('mention another agent: the message triggers it, and the sender does not wait', async () => {
    const cast = await openRoom()
    const { finance, hr, room } = cast
    const held = gate()
    parley.models.script(forAgent('Finance Agent', steps([{ gate: held.promise }, send(room, 'It is $2.1M.')])))
    const text = 'Finance, can you check the budget?'
    const { run, output, message } = await pattern(cast, { text, more: { mention: finance.id } })
    expect(output).toEqual({ messageId: message.id, sent: true })
    expect(wakes(message)).toEqual(['Finance Agent'])
    held.open()
    const [woken] = await stage.endedRuns(finance, 1)
    expect(woken).toMatchObject({
      triggerType: 'SPACE_MESSAGE',
      triggerMessage: { id: message.id },
      triggerSummary: `Ada in "Space X": "${text}"`,
      depth: 1,
      rootId: run.rootId,
    })
    const prompt = promptOf(
      await parley.models.request(({ instructions }) => instructions.includes('Finance Agent, an')),
    )
    expect(prompt.split('\n')[1]).toBe(
      JSON.stringify({ type: 'space_message', senderType: 'agent', mentionReason: text }),
    )
    expect(await conversation(room)).toEqual([
      'Husam: Begin',
      `Ada → Finance Agent: ${text}`,
      'Finance Agent: It is $2.1M.',
    ])
    expect(await stage.runsOf(hr)).toEqual([])
  })

  test('ask an agent and wait for its reply', async () => {
    const cast = await openRoom()
    const { finance, room } = cast
    parley.models.script(forAgent('Finance Agent', steps([send(room, 'Q4 budget: $2.1M allocated...')])))
    const more = { mention: finance.id, wait: { for: [{ type: 'agent' }], timeout: 60 } }
    const { output, message } = await pattern(cast, { text: "What's the Q4 budget status?", more })
    expect(output).toEqual({
      messageId: message.id,
      sent: true,
      timedOut: false,
      reply: {
        text: 'Q4 budget: $2.1M allocated...',
        entityId: finance.id,
        entityName: 'Finance Agent',
        entityType: 'agent',
      },
    })
    expect(wakes(message)).toEqual(['Finance Agent'])
  })

  test.each<[string, string, (cast: Cast) => object, (cast: Cast) => [Person, string][], string]>([
    [
      'ask a human and wait',
      'Do you approve this expense?',
      () => ({ for: [{ type: 'human' }], timeout: 120 }),
      ({ husam }) => [[husam, 'Approved.']],
      'Husam',
    ],
    [
      'wait for a specific entity',
      'Ahmad, can you confirm the 3 PM meeting?',
      ({ ahmad }) => ({ for: [{ type: 'entity', entityId: ahmad.id }], timeout: 90 }),
      ({ husam, ahmad }) => [
        [husam, 'He is on his way.'],
        [ahmad, 'Confirmed.'],
      ],
      'Ahmad',
    ],
    [
      'wait for either an agent or a human',
      'Can anyone confirm the budget is approved?',
      () => ({ for: [{ type: 'agent' }, { type: 'human' }], timeout: 120 }),
      ({ ahmad }) => [[ahmad, 'It is.']],
      'Ahmad',
    ],
    [
      'post and wait for anyone',
      'Does anyone have the Q3 report?',
      () => ({ for: [{ type: 'any' }] }),
      ({ husam }) => [[husam, 'I have it.']],
      'Husam',
    ],
  ])(
    '%s: the first match is the reply, and does not wake the admin agent a second time',
    async (_, text, waitOf, answersOf, by) => {
      const cast = await openRoom()
      const answers = answersOf(cast)
      const meanwhile = async () => {
        for (const [person, words] of answers) await stage.say(person, cast.room, words)
      }
      const { output, message } = await pattern(cast, { text, more: { wait: waitOf(cast) }, meanwhile })
      const last = answers.at(-1)
      expect(output).toMatchObject({
        timedOut: false,
        reply: { text: last?.[1], entityId: last?.[0].id, entityName: by, entityType: 'human' },
      })
      expect(message.mentionedAgent).toBeNull()
      expect(wakes(message)).toEqual([])
      await stage.endedRuns(cast.ada, answers.length)
      for (const bot of [cast.finance, cast.hr]) expect(await stage.runsOf(bot)).toEqual([])
    },
  )

  test('wait for either of two agents: the first reply counts', async () => {
    const cast = await openRoom()
    const { husam, finance, hr, room } = cast
    const wait = { for: [finance, hr].map(({ id: entityId }) => ({ type: 'entity', entityId })), timeout: 60 }
    const question = 'Finance or HR, does anyone have the Q4 numbers?'
    for (const [bot, words] of [
      [hr, 'HR has them.'],
      [finance, 'Finance too.'],
    ] as const)
      parley.models.script(forAgent(bot.name, steps([send(room, words)])))
    parley.models.script(forAgent('Ada', when(wokenBy('HR, please'), steps([send(room, 'HR?', { mention: hr.id })]))))
    const { output } = await pattern(cast, {
      text: question,
      more: { wait },
      meanwhile: () => stage.say(husam, room, 'HR, please answer'),
    })
    expect(output.reply).toEqual({ text: 'HR has them.', entityId: hr.id, entityName: 'HR Agent', entityType: 'agent' })
    expect(await stage.runsOf(finance)).toEqual([])
    await stage.endedRuns(cast.ada, 2)
  })

  test('no reply in time: timedOut', async () => {
    const cast = await openRoom()
    const wait = { for: [{ type: 'human' }], timeout: 0.3 }
    const { output, message } = await pattern(cast, { text: 'Do you approve this expense?', more: { wait } })
    expect(output).toEqual({ messageId: message.id, sent: true, timedOut: true, reply: null })
  })

  test('several texts and a chart for one space become one message, whose last part mentions', async () => {
    const { husam, finance, room } = await openRoom()
    const analyst = await stage.bot('Analyst', { tools: [CHART] })
    const board = await stage.space('Board', [husam, analyst, finance])
    parley.models.script(
      forAgent(
        'Analyst',
        steps(
          [send(board, "Here's your report."), send(room, 'Elsewhere')],
          [
            { toolCall: 'showChart', input: { title: 'Q4', targetSpaceId: board.id } },
            send(board, 'Any questions?', { mention: finance.id }),
          ],
          [send(board, 'I am around.')],
        ),
      ),
    )
    await stage.say(husam, board, 'Report, please')
    const [run] = await stage.endedRuns(analyst, 1)
    expect(run.toolCalls[1].output).toMatchObject({ error: { code: 'NOT_A_MEMBER' } })
    const [, report, more] = await stage.messagesIn(board)
    expect(report.parts).toMatchObject([
      { text: "Here's your report." },
      { toolCall: { toolName: 'showChart', status: 'DONE', input: { title: 'Q4' }, output: { title: 'Q4' } } },
      { text: 'Any questions?' },
    ])
    expect(report).toMatchObject({ status: 'COMPLETE', mentionedAgent: { id: finance.id } })
    expect(more).toMatchObject({ text: 'I am around.', mentionedAgent: null, outcomes: [{ kind: 'NOT_ROUTED' }] })
    expect((await stage.endedRuns(finance, 1))[0]).toMatchObject({ triggerMessage: { id: report.id } })
  })

  test('delegateToAgent: the target responds to the human as if the admin agent had never been involved', async () => {
    const { husam, ada, finance, hr, room } = await openRoom()
    const handing = { toolCall: 'delegateToAgent', input: { targetAgentEntityId: finance.id } }
    parley.models.script(forAgent('Ada', steps([handing])))
    parley.models.script(forAgent('Finance Agent', steps([send(room, 'Q4 budget: $2.1M allocated...')])))
    const live = husam.client.subscribe<Read, object>(SPACE_EVENTS, { spaceId: room.id })
    await live.first(() => true)
    const { sentMessage } = await stage.say(husam, room, 'Get me the Q4 budget')
    const [answering] = await stage.endedRuns(finance, 1)
    const [handed] = await stage.endedRuns(ada, 1)
    expect(handed).toMatchObject({ status: 'CANCELED', summary: null, error: null })
    const { triggerType, triggerSummary, triggerSpace, triggerMessage, depth, rootId } = handed
    expect(answering).toMatchObject({ status: 'COMPLETED', triggerType, triggerSummary, triggerSpace, depth, rootId })
    expect(answering.triggerMessage).toEqual(triggerMessage)
    const [asked] = await stage.messagesIn(room)
    const fates = Object.fromEntries(asked.outcomes.map(({ agent, kind, run }: Read) => [agent.id, [kind, run?.id]]))
    expect(fates).toEqual({
      [ada.id]: ['NOT_ROUTED', undefined],
      [finance.id]: ['RUN', answering.id],
      [hr.id]: ['NOT_ROUTED', undefined],
    })
    expect(await conversation(room)).toEqual([
      'Husam: Get me the Q4 budget',
      'Finance Agent: Q4 budget: $2.1M allocated...',
    ])
    const { internals } = await stage.ask(stage.admin, PROMPTS, { id: answering.id })
    const [first] = internals.steps.edges
    const shown = `${first.node.messages[0].content}`
    expect(shown).toContain(`TRIGGER: a message from Husam (human) in "Space X" (id: ${room.id})`)
    expect(shown).not.toMatch(/\bAda\b|[Dd]elegat/)
    expect(first.node.instructions).not.toMatch(/delegat/i)
    expect(first.node.activeTools).not.toContain('delegateToAgent')
    await live.first(({ spaceMessages }) => spaceMessages.message?.sender.name === 'Finance Agent')
    const posted = live.seen.filter(({ spaceMessages }) => spaceMessages.__typename === 'MessagePosted')
    expect(posted.map(({ spaceMessages }) => spaceMessages.message.sender.name)).toEqual(['Husam', 'Finance Agent'])
    expect(sentMessage.id).toBe(asked.id)
    live.stop()
  })

  test.each(CIRCLES)(
    'two agents wait for each other, in $circle: a new run of the first sees its own waiting run in getMyRuns, and responds',
    async ({ confidential, people }) => {
      const { husam, ahmad, ada, finance, room } = await openRoom({ confidential })
      const back = await stage.space('Back Office', [...people([], [husam, ahmad]), finance, ada], { confidential })
      const wait = { for: [{ type: 'agent' }], timeout: 60 }
      const [asks, asksBack] = ['How much is left of the budget?', 'Which budget do you mean?']
      const adaPlays = (trigger: string, ...generations: ModelAction[][]) =>
        parley.models.script(forAgent('Ada', when(wokenBy(trigger), steps(...generations))))
      adaPlays('Begin', [send(room, asks, { mention: finance.id, wait })], [send(room, 'Husam: $0.2M.')])
      adaPlays(asksBack, [{ toolCall: 'getMyRuns', input: {} }], [send(back, 'The Q4 one.')])
      const asking = send(back, asksBack, { mention: ada.id, wait })
      parley.models.script(forAgent('Finance Agent', steps([asking], [send(room, '$0.2M are left.')])))
      const { runs } = await stage.say(husam, room, 'Begin')
      const [waited, broke] = await stage.endedRuns(ada, 2)
      const [answered] = await stage.endedRuns(finance, 1)
      expect([waited, answered, broke].map(({ status, depth }) => `${status} ${depth}`)).toEqual([
        'COMPLETED 0',
        'COMPLETED 1',
        'COMPLETED 2',
      ])
      expect(waited.id).toBe(runs[0].id)
      const request = await parley.models.request((one) => wokenBy(asksBack)(one) && one.step === 1)
      expect(resultsIn(request)[0]).toMatchObject({
        currentRunId: broke.id,
        otherActiveRuns: [
          {
            runId: waited.id,
            triggerSource: 'Husam in Space X',
            status: 'running',
            progress: { toolsCalled: ['sendSpaceMessage (waiting for reply)'] },
          },
        ],
      })
      expect(answered.toolCalls[0].output.reply).toMatchObject({ text: 'The Q4 one.', entityName: 'Ada' })
      expect(waited.toolCalls[0].output.reply).toMatchObject({ text: '$0.2M are left.', entityName: 'Finance Agent' })
      expect(await conversation(back)).toEqual([`Finance Agent → Ada: ${asksBack}`, 'Ada: The Q4 one.'])
      expect(await conversation(room)).toEqual([
        'Husam: Begin',
        `Ada → Finance Agent: ${asks}`,
        'Finance Agent: $0.2M are left.',
        'Ada: Husam: $0.2M.',
      ])
    },
  )
})

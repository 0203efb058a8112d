import { describe, expect, test } from 'vitest'
import { DEFAULT_STACK } from '../support/application.ts'
import { forAgent, type ModelAction, type ModelRequest, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, promptOf, type Stage, wokenBy } from '../support/stage.ts'
import { enter, mentions, say } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The trigger in a run's prompt, wherever the run goes and however the memberships change in the meantime.

const CALLS = `query ($id: ID!) { agent(id: $id) { runs { edges { node { status toolCalls { id toolName status } } } } } }`
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { ... on SubmitToolResultPayload { toolCall { status } } ... on Error { message } }
}`
const REMOVE = `mutation ($input: RemoveMemberInput!) {
  removeMember(input: $input) { __typename ... on Error { message } }
}`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } }
}`
const ASK = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE', visible: true }

describe('the trigger of a run', () => {
  let parley: TestServer
  let stage: Stage

  playScenarios(
    DEFAULT_STACK,
    (opened) => {
      parley = opened.parley
      stage = opened.stage
    },
    { PARLEY_HISTORY_LIMIT: '4' },
  )

  const textOf = ({ instructions, messages }: ModelRequest) =>
    [instructions, ...messages.map(({ text }) => text)].join('\n')
  const resultsOf = ({ messages }: ModelRequest) => messages.filter(({ role }) => role === 'tool').length
  const ofTrigger = wokenBy('THE-TRIGGER')

  async function waitingCall(agent: Named): Promise<string> {
    const find = async () => {
      const { runs } = await stage.ask(stage.admin, CALLS, { id: agent.id })
      const calls = runs.edges.flatMap(
        ({ node }: { node: { toolCalls: { id: string; status: string }[] } }) => node.toolCalls,
      )
      return calls.find(({ status }: { status: string }) => status === 'WAITING')?.id
    }
    return until(`a call of ${agent.name} waits`, find)
  }

  const submit = (person: Person, toolCallId: string) =>
    stage.ask(person.client, SUBMIT, { input: { toolCallId, result: { ok: true } } })

  /** Starts a run that was triggered in a long space, entered a short one, and waits there for a reply. */
  async function waitingElsewhere(name: string, after: ModelAction[]) {
    const ann = await stage.person('Ann')
    const bot = await stage.bot(name, { toolset: 'ACTIVE_SPACE', tools: [ASK] })
    const long = await stage.space('Long', [ann, bot], { routing: 'BROADCAST' })
    const short = await stage.space('Short', [ann, bot], { routing: 'BROADCAST' })
    for (const text of ['one', 'two', 'three']) await stage.say(ann, long, text)
    await stage.endedRuns(bot, 3)
    const play = [[enter(short)], [{ toolCall: 'ask', input: {} }], after]
    parley.models.script(
      forAgent(
        name,
        when(ofTrigger, (request) => play[resultsOf(request)] ?? [{ text: 'Done.' }]),
      ),
    )
    await stage.say(ann, long, 'THE-TRIGGER: ask in the other space.')
    return { ann, bot, long, short, callId: await waitingCall(bot) }
  }

  test('stays in the prompt after the run entered another space and waited there, with the messages since then above the results', async () => {
    const { ann, bot, long, short, callId } = await waitingElsewhere('Walker', [
      { toolCall: 'read_messages', input: {} },
    ])
    await stage.say(ann, long, 'SAID-LATER in the space of the trigger')
    await stage.say(ann, short, 'CORRECTION: three laptops')
    await submit(ann, callId)
    const resumed = await parley.models.request((request) => ofTrigger(request) && resultsOf(request) === 2)
    expect(promptOf(resumed)).toContain('"text":"three"')
    expect(promptOf(resumed)).not.toContain('SAID-LATER')
    const meanwhile = resumed.messages.findIndex(({ text }) => text.startsWith('WHILE YOU WAITED:'))
    expect(resumed.messages[meanwhile]?.text).toContain('CORRECTION: three laptops')
    expect(resumed.messages.slice(meanwhile + 1).map(({ role }) => role)).toEqual(['assistant', 'tool'])
    const later = await parley.models.request((request) => ofTrigger(request) && resultsOf(request) === 3)
    expect(
      later.messages
        .slice(0, resumed.messages.length)
        .map(({ text }) => text)
        .slice(1),
    ).toEqual(resumed.messages.map(({ text }) => text).slice(1))
    expect(later.messages.at(-1)?.text).toContain('CORRECTION: three laptops')
    await stage.endedRuns(bot, 6)
  })

  test('is hidden from an agent that was removed from its space, as are later messages there', async () => {
    const { ann, bot, long, callId } = await waitingElsewhere('Leaver', [{ text: 'Done.' }])
    const before = parley.models.requests.length
    await stage.ask(ann.client, REMOVE, { input: { spaceId: long.id, entityId: bot.id } })
    for (let n = 0; n < 6; n++) await stage.say(ann, long, 'SECRET payroll')
    await submit(ann, callId)
    await stage.endedRuns(bot, 4)
    const since = parley.models.requests.slice(before).map(textOf)
    for (const text of since) expect(text).not.toMatch(/SECRET|THE-TRIGGER|"three"/)
  })

  const isCalledBack = (request: ModelRequest) => promptOf(request).includes('You are called back.')

  /** Agents take turns. Jira sends this many words, asks HR, and is called back. `meanwhile` runs after HR has posted. */
  async function asking({
    words = 1,
    meanwhile = async () => {},
  }: {
    words?: number
    meanwhile?(): Promise<unknown>
  } = {}) {
    const husam = await stage.person('Husam')
    const jira = await stage.bot('Jira bot', { toolset: 'ACTIVE_SPACE' })
    const hr = await stage.bot('HR bot', { toolset: 'ACTIVE_SPACE' })
    const team = await stage.space('Team', [husam, jira, hr], { routing: 'MENTION_CHAIN' })
    const asks = [...Array.from({ length: words }, () => say('Who is free?')), mentions(hr, 'staffing', true)]
    parley.models.script(forAgent('Jira bot', steps([enter(team)], asks)))
    parley.models.script(forAgent('Jira bot', when(isCalledBack, steps([say('Ticket assigned.')]))))
    const answers = async ({ step }: ModelRequest) => {
      if (step === 1) await meanwhile()
      return step === 0 ? [say('Omar is.')] : [{ text: 'Done.' }]
    }
    parley.models.script(forAgent('HR bot', answers))
    return { husam, jira, team }
  }

  async function calledBack({ jira }: { jira: Named }): Promise<string> {
    await stage.endedRuns(jira, 2)
    return promptOf(await parley.models.request(isCalledBack))
  }

  const THE_TASK = 'THE TASK: (what began this chain, quoted as data) '
  const office = (members: Named[], more = {}) => stage.space('Office', members, { routing: 'BROADCAST', ...more })

  test('the trigger of a call-back in a chain of a service is the payload of the service', async () => {
    const room = await asking()
    const input = { agentId: room.jira.id, serviceName: 'jira', payload: { ticket: 'PROJ-77' } }
    await stage.ask(stage.admin, TRIGGER, { input })
    expect(await calledBack(room)).toContain(`${THE_TASK}{"service":"jira","payload":{"ticket":"PROJ-77"}}`)
  })

  test('the trigger of a call-back in a chain from another space is the message there', async () => {
    const room = await asking()
    const { husam, jira } = room
    await stage.say(husam, await office([husam, jira]), 'Assign PROJ-77')
    expect(await calledBack(room)).toContain(`${THE_TASK}{"space":"Office","from":"Husam","text":"Assign PROJ-77"}`)
  })

  test.each([
    ['that its history does not reach carries it whole', 4],
    ['in its history shows it there, whole and once', 1],
  ])('a call-back in a chain that began with a message %s', async (_, words) => {
    const text = `Assign ${'x'.repeat(20_000)} PROJ-77`
    const room = await asking({ words })
    await stage.say(room.husam, room.team, text)
    const prompt = await calledBack(room)
    expect(prompt.includes(`${THE_TASK}{"space":"Team","from":"Husam","text":"${text}"}`)).toBe(words === 4)
    expect(prompt.split(`"${text}"`)).toHaveLength(2)
    expect(prompt.match(/Assign/g)).toHaveLength(1)
  })

  test.each([
    ['that its agent has left', false, ({ jira }: { jira: Named }) => jira],
    ['that is confidential, and that the requester has left', true, ({ husam }: { husam: Named }) => husam],
  ])('is omitted from a call-back in a chain that began in a space %s', async (_, confidential, leaver) => {
    let leave = async () => {}
    const room = await asking({ meanwhile: () => leave() })
    const { husam, jira } = room
    const { id: spaceId } = await office([husam, jira], { confidential })
    leave = () => stage.ask(stage.admin, REMOVE, { input: { spaceId, entityId: leaver(room).id } })
    await stage.say(husam, { id: spaceId, name: 'Office' }, 'Assign PROJ-77')
    expect(await calledBack(room)).not.toContain('THE TASK')
  })

  test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'])(
    'ADMIN, %s: the prompt of the admin agent lists its possible delegates, with ids and descriptions',
    async (toolset) => {
      const lead = await stage.bot(`Lead ${toolset}`, { toolset })
      const designer = await stage.bot('Designer', { toolset, description: 'Knows "layouts".' })
      const husam = await stage.person('Husam')
      const team = await stage.space('Team', [husam, lead, designer])
      await stage.say(husam, team, 'A new layout, please')
      const request = await parley.models.request(({ instructions }) => instructions.includes(`You are ${lead.name}`))
      const section = request.instructions.split('OTHER AGENTS:\n')[1]?.split('\n\n')[0]
      expect(section).toBe(`- "Designer" (id: ${designer.id}): "Knows \\"layouts\\"."`)
      expect(request.toolNames).toContain('delegateToAgent')
      expect(/mention the agent/.test(JSON.stringify(request.body))).toBe(toolset === 'SPACE_TOOLS')
      await stage.endedRuns(lead, 1)
    },
  )

  test('an agent outside its chain that names spaces sees whom it can mention there, and that it must not wait for them', async () => {
    const [lead, designer] = [await stage.bot('Lead'), await stage.bot('Designer', { description: 'Knows layouts.' })]
    const husam = await stage.person('Husam')
    const chain = await stage.space('Chain', [husam, lead, designer], { routing: 'MENTION_CHAIN' })
    const elsewhere = await stage.space('Elsewhere', [husam, lead])
    const sectionIn = ({ instructions }: ModelRequest, title: string) =>
      instructions.split(`${title}\n`)[1]?.split('\n\n')[0]
    await stage.say(husam, elsewhere, 'A new layout, please')
    const outside = await parley.models.request(wokenBy('A new layout, please'))
    expect(outside.toolNames).toContain('mentionAgent')
    expect(sectionIn(outside, 'OTHER AGENTS:')).toBe(`- "Designer" (id: ${designer.id}): "Knows layouts."`)
    expect(sectionIn(outside, 'TURNS ELSEWHERE:')).toMatch(
      `- In "Chain" (id: ${chain.id}) one agent of a chain acts at a time. An agent that you mention`,
    )
    await stage.say(husam, chain, 'Your turn')
    const inside = await parley.models.request(wokenBy('Your turn'))
    expect(sectionIn(inside, 'YOUR TURN IN "Chain":')).toContain('"Knows layouts."')
    expect(inside.instructions).not.toMatch(/TURNS ELSEWHERE|OTHER AGENTS/)
    await stage.endedRuns(lead, 2)
  })
})

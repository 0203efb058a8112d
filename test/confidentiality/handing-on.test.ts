import { beforeEach, describe, expect, test } from 'vitest'
import { createRunProgress } from '../../src/runs/run-progress.ts'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions } from '../support/decisions.ts'
import { gate, sayIn } from '../support/space-tools.ts'
import { type Named, type Person, promptOf, type Read } from '../support/stage.ts'
import { delegates, enter, mentions, say, skips, type Turn, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const REMOVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }`
const ALONE = { routing: 'MENTION_CHAIN', confidential: true }
const TOGETHER = { routing: 'MENTION_CHAIN' }
const REFUSED = { status: 'FAILED', output: { error: { code: 'CONFIDENTIAL' } } }
const ASK = {
  name: 'ask',
  description: 'Asks.',
  inputSchema: { type: 'object' },
  execution: 'SPACE',
  timeoutMs: 60_000,
}

describe.each(RULE_STACKS)('confidential content in delegations and replies, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  let alice: Person
  let bob: Person
  beforeEach(async () => {
    alice = await play.stage.person('Alice')
    bob = await play.stage.person('Bob')
  })

  async function world(more: object = {}) {
    const bot = (name: string) => play.stage.bot(name, { toolset: 'ACTIVE_SPACE', ...more })
    const [ada, ben] = [await bot('Ada'), await bot('Ben')]
    const diary = await play.stage.space('Diary', [alice, ada, ben], ALONE)
    const team = await play.stage.space('Team', [alice, bob, ada, ben], TOGETHER)
    return { ada, ben, diary, team }
  }

  const plays = (agent: Named, ...turns: Turn[]) => takesTurns(play.parley.models, agent.name, ...turns)
  const asks = (space: Named, text: string, agent: Named, person = alice) =>
    play.stage.say(person, space, text, { mentionedAgentId: agent.id })
  const callsIn = async (agent: Named, runs: number): Promise<Read[]> =>
    (await play.stage.endedRuns(agent, runs)).at(-1).toolCalls

  test('is refused in a mention and a delegation if a member of the target space may not read it', async () => {
    const { ada, ben, diary, team } = await world()
    plays(ada, [[enter(team), mentions(ben, SECRET)], [delegates(ben, SECRET)]])
    await asks(diary, SECRET, ada)
    const [, mentioned, delegated] = await callsIn(ada, 1)
    expect(mentioned).toMatchObject(REFUSED)
    expect(delegated).toMatchObject(REFUSED)
    expect(await play.stage.runsOf(ben)).toEqual([])
  })

  test('keeps its label in a delegation and in the reason of a mention', async () => {
    const { ada, ben, diary, team } = await world()
    plays(ada, [[delegates(ben, SECRET)]], [[mentions(ben, SECRET)]])
    plays(ben, [[enter(team), say(SECRET)]], [[enter(team), say(SECRET)]])
    await asks(diary, 'For whom is this?', ada)
    expect((await callsIn(ben, 1))[1]).toMatchObject(REFUSED)
    await asks(diary, 'And this?', ada)
    expect((await callsIn(ben, 2))[1]).toMatchObject(REFUSED)
    expect(await play.stage.messagesIn(team)).toEqual([])
  })

  test('keeps its label in the reason of a skip, for the agent that is called back', async () => {
    const { ada, ben, diary, team } = await world()
    plays(ada, [[mentions(ben, 'Do you know?', true)]], [[say(SECRET)]])
    plays(ben, [[enter(diary)], [skips(SECRET)]])
    await asks(team, 'What is new?', ada)
    expect((await callsIn(ada, 2))[0]).toMatchObject(REFUSED)
    expect((await play.stage.messagesIn(team)).map(({ text }: Read) => text)).toEqual(['What is new?'])
  })

  test('keeps its label in an awaited reply', async () => {
    const { ada, diary, team } = await world({ toolset: 'SPACE_TOOLS' })
    const wait = { for: [{ type: 'human' }], timeout: 60 }
    plays(ada, [[sayIn(diary.id, 'What is it?', { wait })], [sayIn(team.id, SECRET)]])
    await asks(team, 'What is new?', ada)
    // The wait is stored when the message ends.
    await until(
      'the question is posted',
      async () => (await play.stage.messagesIn(diary))[0]?.status === 'REQUIRES_ACTION',
    )
    await play.stage.say(alice, diary, SECRET)
    const [asked, told] = await callsIn(ada, 1)
    expect(asked.output.reply.text).toBe(SECRET)
    expect(told).toMatchObject(REFUSED)
  })

  test('keeps its label in the result of a space tool', async () => {
    const { ada, diary, team } = await world({ tools: [ASK] })
    plays(ada, [
      [enter(diary), { toolCall: 'ask', input: {} }],
      [enter(team), say(SECRET)],
    ])
    await asks(team, 'What is new?', ada)
    const call = await until('the question is posted', async () => (await play.deciders.pendingOf(alice))[0])
    expect(await play.deciders.submit(alice, call.id, SECRET)).toMatchObject({ __typename: 'SubmitToolResultPayload' })
    expect((await callsIn(ada, 1))[3]).toMatchObject(REFUSED)
  })

  test('is omitted when another run lists the run that contains it', async () => {
    const { ada, diary, team } = await world()
    const held = gate()
    plays(ada, [[{ gate: held.promise }, say('Done with it.')]], [[{ toolCall: 'get_my_runs', input: {} }]])
    const { runs } = await asks(diary, SECRET, ada)
    await play.parley.models.request((request) => promptOf(request).includes(SECRET))
    await asks(team, 'What are you doing?', ada, bob)
    const [looked] = await until('the run list is returned', async () => {
      const ended = (await play.stage.runsOf(ada)).find(({ status }: Read) => status === 'COMPLETED')
      return ended?.toolCalls
    })
    const [told] = looked.output.runs
    expect(told).toEqual({ runId: runs[0].id, status: 'running', startedAt: expect.any(String) })
    const sent = play.parley.models.requests.filter((request) => promptOf(request).includes('What are you doing?'))
    expect(sent[0]?.instructions).toContain(
      `- Run ${runs[0].id} (running) — for others: nothing more of it is told here`,
    )
    expect(JSON.stringify(sent)).not.toContain(SECRET)
    held.open()
    await play.parley.runWhen(runs[0].id)
  })

  test('does not appear in a list of runs that another run requests for its space', async () => {
    const { ada, diary, team } = await world({ toolset: 'SPACE_TOOLS' })
    const held = gate()
    const look = (spaceId: string) => ({ toolCall: 'getMyRuns', input: { triggerSpaceId: spaceId } })
    plays(ada, [[{ gate: held.promise }, { text: 'Done.' }]], [[look(diary.id)]])
    const { runs } = await asks(diary, SECRET, ada)
    await play.parley.models.request((request) => promptOf(request).includes(SECRET))
    await asks(team, 'What are you doing?', ada, bob)
    const [looked] = await until('the run list is returned', async () => {
      const ended = (await play.stage.runsOf(ada)).find(({ status }: Read) => status === 'COMPLETED')
      return ended?.toolCalls
    })
    expect(looked.output.otherActiveRuns).toEqual([])
    held.open()
    await play.parley.runWhen(runs[0].id)
  })

  test('does not appear in the partial text of a run that has just read it', async () => {
    const { ada, diary, team } = await world({ toolset: 'SPACE_TOOLS' })
    const office = await play.stage.space('Office', [alice, ada], TOGETHER)
    const held = gate()
    const thinks = [{ text: SECRET }, { gate: held.promise }, { text: ' That is all.' }]
    plays(ada, [[sayIn(office.id, SECRET)]], [thinks], [[{ toolCall: 'getMyRuns', input: {} }]])
    await asks(diary, 'Tell the office.', ada)
    await play.stage.endedRuns(ada, 1)
    const { runs } = await asks(office, 'What is new?', ada)
    const { platform } = play.parley.app
    await until('the run streams its reasoning', async () => {
      const run = await platform.db.prisma.run.findUniqueOrThrow({ where: { id: runs[0].id } })
      return (await createRunProgress(platform).ofRuns([run])).get(run.id)?.textGenerated === SECRET
    })
    await asks(team, 'What are you doing?', ada, bob)
    const [looked] = await callsIn(ada, 2)
    expect(looked.output.otherActiveRuns).toEqual([
      { runId: runs[0].id, status: 'running', startedAt: expect.any(String) },
    ])
    held.open()
    await play.parley.runWhen(runs[0].id)
  })

  const leaves = (space: Named, who: Person) =>
    play.stage.ask(play.stage.admin, REMOVE, { input: { spaceId: space.id, entityId: who.id } })

  test('is hidden from a run of a human who left before it started', async () => {
    const { ada } = await world({ maxConcurrentRuns: 1 })
    const both = await play.stage.space('Both', [alice, bob, ada], ALONE)
    const held = gate()
    plays(ada, [[{ gate: held.promise }, { text: 'Done.' }]], [[say('I am late.')], [enter(both)]])
    const { runs } = await asks(both, 'Wait for it.', ada)
    await play.parley.runWhen(runs[0].id, 'RUNNING')
    await asks(both, 'Tell me.', ada, bob)
    await play.stage.say(alice, both, SECRET, { mentionedAgentId: ada.id })
    await leaves(both, bob)
    held.open()
    const [, second] = await play.stage.endedRuns(ada, 3)
    expect(second.toolCalls.map(({ output }: Read) => output.error?.code)).toEqual(['CONFIDENTIAL', 'CONFIDENTIAL'])
    const [sent] = play.parley.models.requests.filter(({ instructions }) =>
      instructions.includes(`${second.id} (this run)`),
    )
    expect(JSON.stringify([sent?.instructions, sent?.messages])).not.toContain('Wait for it.')
    expect(sent?.instructions).not.toContain('"Both"')
  })

  test('is hidden from a waiting run after its human left', async () => {
    const { ada } = await world({ tools: [ASK] })
    const both = await play.stage.space('Both', [alice, bob, ada], ALONE)
    plays(ada, [[{ toolCall: 'ask', input: {} }]])
    const { runs } = await asks(both, 'Ask us.', ada, bob)
    const call = await until('the question is posted', async () => (await play.deciders.pendingOf(alice))[0])
    await leaves(both, bob)
    plays(ada, [], [])
    await play.stage.say(alice, both, SECRET)
    await play.deciders.submit(alice, call.id, 'Fine.')
    await play.parley.runWhen(runs[0].id)
    const sent = play.parley.models.requests.filter(({ instructions }) =>
      instructions.includes(`${runs[0].id} (this run)`),
    )
    expect(sent).toHaveLength(2)
    expect(JSON.stringify(sent[1]?.messages)).not.toContain(SECRET)
  })
})

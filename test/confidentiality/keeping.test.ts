import { beforeEach, describe, expect, test } from 'vitest'
import { discreet } from '../../src/context/discreet-scene.ts'
import { createSceneReading } from '../../src/context/scene-reading.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions } from '../support/decisions.ts'
import type { ModelRequest } from '../support/model-server-script.ts'
import { type Named, type Person, promptOf, type Read, resultsIn } from '../support/stage.ts'
import { enter, say, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const CONFIDE = `mutation ($id: ID!) { updateSpace(input: { id: $id, confidential: true }) { __typename } }`
const RUN_PLAN = `mutation ($id: ID!) { runPlanNow(input: { id: $id }) { __typename } }`
const PLANS = `query ($id: ID!) { agent(id: $id) { internals { plans { id name instruction askers { id } confidentialTo { id } } } } }`
const ALONE = { routing: 'BROADCAST', confidential: true }
const TOGETHER = { routing: 'BROADCAST' }

const setGoals = (...goals: object[]) => ({ toolCall: 'set_goals', input: { goals } })
const setPlans = (name: string, instruction: string) => ({
  toolCall: 'set_plans',
  input: { plans: [{ name, instruction, afterSeconds: 9000 }] },
})
const setMemories = (key: string, value: string) => ({
  toolCall: 'set_memories',
  input: { memories: [{ key, value }] },
})

describe.each(RULE_STACKS)('the stored knowledge of an agent, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  let alice: Person
  let bob: Person
  let agent: Named
  let diary: Named
  let team: Named
  beforeEach(async () => {
    alice = await play.stage.person('Alice')
    bob = await play.stage.person('Bob')
    agent = await play.stage.bot('Ada', { toolset: 'ACTIVE_SPACE' })
    diary = await play.stage.space('Diary', [alice, agent], ALONE)
    team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
  })

  const script = (...turns: Parameters<typeof takesTurns>[2][]) => takesTurns(play.parley.models, agent.name, ...turns)
  async function asks(person: Person, space: Named, text: string) {
    const { runs } = await play.stage.say(person, space, text)
    await play.parley.runWhen(runs[0].id)
  }
  const sentFor = (words: string, step = 0): ModelRequest | undefined =>
    play.parley.models.requests.find((request) => promptOf(request).includes(words) && request.step === step)
  const db = () => play.parley.app.platform.db.prisma

  test('includes goals and plans only where all members may read them', async () => {
    script([[setGoals({ description: SECRET }), setPlans('later', SECRET), setMemories('what', SECRET)]], [], [])
    await asks(alice, diary, 'first')
    await asks(bob, team, 'second')
    await asks(alice, diary, 'third')
    const [elsewhere, there] = ['second', 'third'].map((words) => sentFor(words)?.instructions ?? '')
    for (const title of ['YOUR GOALS', 'YOUR PLANS', 'YOUR MEMORIES']) {
      expect(elsewhere).not.toContain(title)
      expect(there).toContain(title)
    }
    expect(elsewhere).not.toContain(SECRET)
    expect(there?.split(SECRET)).toHaveLength(4)
  })

  test('excludes a confidential note that is written while the prompt is being built', async () => {
    script([[setMemories('what', SECRET)]], [])
    await asks(alice, diary, 'first')
    await asks(bob, team, 'second')
    const letters = await play.stage.space('Letters', [alice, agent], ALONE)
    const { platform } = play.parley.app
    const reading = createSceneReading(platform, { history: Prisma.sql`'[]'` })
    const run = await db().run.findFirstOrThrow({ where: { triggerSpaceId: team.id } })
    const rows = await reading.changing(run.id)
    const marks = { places: [letters.id], label: [letters.id] }
    await db().memory.create({
      data: { id: newId('mem'), agentId: agent.id, key: 'new', value: 'Love.', updatedAt: new Date(), ...marks },
    })
    const { notes, withheld } = await discreet(platform.db, reading, run, rows)
    expect(notes.memories).toEqual([])
    expect(run.label).toEqual([])
    expect(withheld.map(({ spaceId, memories }) => [spaceId, memories])).toEqual([
      [diary.id, 1],
      [letters.id, 1],
    ])
  })

  test('has separate plans for the same name under different labels, and acts as if hidden ones did not exist', async () => {
    script([[setGoals({ description: SECRET }), setPlans('later', SECRET)]])
    await asks(alice, diary, 'first')
    const goal = await db().goal.findFirstOrThrow({ where: { agentId: agent.id } })
    const plan = await db().plan.findFirstOrThrow({ where: { agentId: agent.id } })
    script([
      [
        setGoals({ id: goal.id, status: 'completed' }),
        { toolCall: 'delete_goals', input: { ids: [goal.id] } },
        { toolCall: 'delete_plans', input: { names: ['later', plan.id] } },
        { toolCall: 'delete_memories', input: { keys: ['what'] } },
        setPlans('later', 'Tidy up.'),
        { toolCall: 'get_plans', input: {} },
      ],
    ])
    await asks(bob, team, 'second')
    const results = resultsIn(sentFor('second', 1) as ModelRequest)
    expect(results[0]).toMatchObject({ error: { code: 'NOT_FOUND' } })
    expect(results[1]).toMatchObject({ deleted: [], notFound: [goal.id] })
    expect(results[2]).toMatchObject({ deleted: [], notFound: ['later', plan.id] })
    expect(results[5].plans.map(({ instruction }: Read) => instruction)).toEqual(['Tidy up.'])
    const plans = await db().plan.findMany({ where: { agentId: agent.id }, orderBy: { id: 'asc' } })
    expect(plans.map(({ instruction }) => instruction)).toEqual([SECRET, 'Tidy up.'])
    expect(await db().goal.findUnique({ where: { id: goal.id } })).toMatchObject({ status: 'ACTIVE' })
  })

  test("keeps the sources of a goal's description when only the status changes", async () => {
    const aside = await play.stage.space('Aside', [alice, agent], TOGETHER)
    script([[setGoals({ description: SECRET })]])
    await asks(alice, aside, 'first')
    const { id } = await db().goal.findFirstOrThrow({ where: { agentId: agent.id } })
    script([[setGoals({ id, status: 'active' })]], [])
    await asks(bob, team, 'second')
    await play.stage.ask(alice.client, CONFIDE, { id: aside.id })
    await asks(bob, team, 'third')
    expect(sentFor('third')?.instructions).not.toContain(SECRET)
  })

  test('a plan that a run creates works on behalf of that run’s requester, starts without an active space, and keeps its label', async () => {
    script([[setPlans('later', SECRET), setMemories('what', 'of the diary')]])
    await asks(alice, diary, 'first')
    const [plan] = (await play.stage.ask(play.stage.admin, PLANS, { id: agent.id })).internals.plans
    expect(plan).toMatchObject({ askers: [{ id: alice.id }], confidentialTo: [{ id: diary.id }] })
    const bobs = await play.stage.space('Bob', [bob, agent], ALONE)
    script([[enter(bobs)], [enter(team), say(SECRET)], [enter(diary)], [say('It is time.')]])
    await play.stage.ask(play.stage.admin, RUN_PLAN, { id: plan.id })
    const run = await until('it has fired', () =>
      db().run.findFirst({ where: { agentId: agent.id, triggerType: 'PLAN' } }),
    )
    await play.parley.runWhen(run.id)
    const outputs = (await play.stage.endedRuns(agent, 2))[1].toolCalls.map(({ output }: Read) => output)
    expect(outputs[0]).toMatchObject({ error: { code: 'CONFIDENTIAL' } })
    expect(outputs[2]).toMatchObject({ error: { code: 'CONFIDENTIAL' } })
    expect(outputs[3]).toMatchObject({ success: true })
    expect(outputs[4]).toMatchObject({ success: true })
    expect(await play.stage.messagesIn(team)).toEqual([])
    const sent = play.parley.models.requests.filter((request) => promptOf(request).includes('your plan "later" is due'))
    const recalls = sent.map(({ instructions }) => instructions.includes('of the diary'))
    expect(recalls).toEqual([false, false, false, true, true])
  })

  test('an admin’s plan works on behalf of nobody: it may enter all spaces of the agent, and sees only name and id of a confidential one', async () => {
    const create = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } } }`
    const input = { agentId: agent.id, name: 'daily', instruction: 'Look.', schedule: { afterSeconds: 9000 } }
    const { plan } = await play.stage.ask(play.stage.admin, create, { input })
    script([[enter(diary)], [say('Good morning.')], [enter(team), say('All of you.')]])
    await play.stage.ask(play.stage.admin, RUN_PLAN, { id: plan.id })
    await play.stage.endedRuns(agent, 1)
    const [first] = play.parley.models.requests.filter((request) =>
      promptOf(request).includes('your plan "daily" is due'),
    )
    expect(first?.instructions).toContain(`- "Diary" (id: ${diary.id})\n`)
    expect(first?.instructions).toContain(`- "Team" (id: ${team.id}) — Members: `)
    expect((await play.stage.messagesIn(diary)).map(({ text }: Read) => text)).toEqual(['Good morning.'])
    expect(await play.stage.messagesIn(team)).toEqual([])
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, steps } from '../../support/model-server-script.ts'
import { callsOf, spaceToolsRoom } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

const KNOWLEDGE = ['setMemories', 'deleteMemories', 'setGoals', 'deleteGoals', 'setPlans', 'getPlans', 'deletePlans']

describe('the tools of an agent with the toolset SPACE_TOOLS', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test.each([
    ['a human', []],
    ['a human of an admin agent among several', ['Bea']],
  ])('a run that %s triggers has exactly these tools', async (_, others) => {
    const { human, space } = await spaceToolsRoom(parley, { names: ['Ada', ...others] })
    parley.models.script(() => [{ text: 'Fine.' }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    const { toolNames } = await parley.models.request(() => true)
    const ofMessages = ['editMessage', 'deleteMessage', 'react', 'searchMessages', 'readFile', 'sendFile']
    const expected = ['readSpaceMessages', 'sendSpaceMessage', 'getMyRuns', ...ofMessages, ...KNOWLEDGE]
    expect(toolNames.toSorted()).toEqual(
      [...expected, ...(others.length > 0 ? ['delegateToAgent', 'skip'] : [])].sort(),
    )
  })

  test('its prompt has the ids of the members, for mentions and waits', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    parley.models.script(() => [{ text: 'Fine.' }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    const { instructions } = await parley.models.request(() => true)
    const members = `"Husam" (human, id: ${human.id}), You (agent), "Bea" (agent, id: ${agents[1]?.id})`
    expect(instructions).toContain(`- "Project Alpha" (id: ${space.id}) [ACTIVE] — Members: ${members}`)
    expect(instructions).toContain('HOW YOU ACT:\n- People and agents receive only what you post with sendSpaceMessage')
  })

  test('an endless loop of calls ends at maxSteps', async () => {
    const { human, space } = await spaceToolsRoom(parley, { input: { maxSteps: 3 } })
    parley.models.script(() => [{ toolCall: 'getMyRuns', input: {} }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', stepCount: 3 })
    expect(await callsOf(parley, run.id)).toHaveLength(3)
  })

  test('a waiting persistent agent: the reply is marked as done in its inbox, and wakes no other cycle', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Mia'], input: { mind: 'PERSISTENT' } })
    const wait = { for: [{ type: 'human' }], timeout: 30 }
    const { prisma } = parley.app.platform.db
    parley.models.script(
      forAgent('Mia', steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Sure?', wait } }])),
    )
    await parley.send(human, space.id, 'Do it')
    const [question] = await waitFor(async () =>
      (await parley.messages(space.id)).filter(({ routedAt, seq }) => routedAt && seq === 2),
    )
    expect(question).toMatchObject({ status: 'REQUIRES_ACTION' })
    const { message } = await parley.send(human, space.id, 'Yes.')
    const [cycle] = await waitFor(() =>
      prisma.run.findMany({ where: { agentId: agents[0]?.id ?? '', status: 'COMPLETED' } }),
    )
    expect((await callsOf(parley, cycle?.id ?? ''))[0]?.output).toMatchObject({ reply: { text: 'Yes.' } })
    const event = await prisma.inboxEvent.findFirst({ where: { agentId: agents[0]?.id ?? '', messageId: message.id } })
    expect(event).toMatchObject({ runId: cycle?.id, doneAt: expect.any(Date) })
    expect(await prisma.run.count({ where: { agentId: agents[0]?.id ?? '' } })).toBe(1)
  })
})

/** Returns the result of a query, once there is one. */
async function waitFor<T>(find: () => Promise<T[]>): Promise<T[]> {
  return until('the query has a result', async () => {
    const found = await find()
    return found.length > 0 && found
  })
}

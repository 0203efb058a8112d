import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { type Thinking, thinkingOn } from '../support/thinking.ts'

describe.each(['STATELESS', 'PERSISTENT'] as const)('the instructions of a later step of a %s agent', (mind) => {
  let parley: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication()
    thinking = thinkingOn(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  const room = () => parley.room('Ada', { mind }, { name: 'Family' })

  const instructionsAt = async (step: number) =>
    (await parley.models.request((request) => request.step === step)).instructions

  test('include notes from earlier steps, and no deleted ones', async () => {
    const { human, agent, space } = await room()
    await parley.app.domain.memories.set(agent.id, [{ key: 'colour', value: 'green' }])
    const [plan] = await parley.app.domain.plans.setOwn(agent.id, [
      { name: 'Rest', instruction: 'Rest.', cron: '0 6 * * *' },
    ])
    parley.models.script(
      steps(
        [
          { toolCall: 'set_memories', input: { memories: [{ key: 'city', value: 'Lyon' }] } },
          { toolCall: 'delete_memories', input: { keys: ['colour'] } },
          { toolCall: 'set_goals', input: { goals: [{ description: 'Ship it.' }] } },
        ],
        [
          {
            toolCall: 'set_plans',
            input: { plans: [{ name: 'Look', instruction: 'Look again.', at: '2040-01-31T06:00:00Z' }] },
          },
        ],
      ),
    )
    await parley.send(human, space.id, 'Take note')
    await thinking.rest(agent)
    const [first, second, third] = [await instructionsAt(0), await instructionsAt(1), await instructionsAt(2)]
    expect(first).toContain('YOUR MEMORIES:\n- "colour": "green"')
    expect(first).toContain(`YOUR PLANS:\n- "Rest" (id: ${plan?.id}, 0 6 * * *): "Rest."`)
    expect(second).toContain('YOUR MEMORIES:\n- "city": "Lyon"\n\n')
    expect(second).toMatch(/YOUR GOALS:\n- "Ship it\." \(id: gol_\w+\)/)
    expect(third).toMatch(/- "Look" \(id: pln_\w+, once, at 2040-01-31T06:00:00\.000Z\): "Look again\."/)
  })

  test('instructions name the agent’s current spaces', async () => {
    const { human, agent, space } = await room()
    const joined = await parley.space(human, [], { name: 'Support' })
    parley.models.script(async (request) => {
      if (request.step === 0) {
        await parley.app.domain.members.add(human, { spaceId: joined.id, entityId: agent.id })
        await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: agent.id })
      }
      return steps(
        [{ toolCall: 'get_my_runs', input: {} }],
        [{ toolCall: 'enter_space', input: { spaceId: joined.id } }],
        [{ toolCall: 'send_message', input: { text: 'Hello, Support.' } }],
      )(request) as never
    })
    await parley.send(human, space.id, 'Move on')
    await thinking.rest(agent)
    expect(await instructionsAt(0)).toContain(`- "Family" (id: ${space.id})`)
    expect(await instructionsAt(1)).not.toContain(space.id)
    expect(await instructionsAt(1)).toContain(
      `YOUR SPACES:\n- "Support" (id: ${joined.id}) — Members: "Husam" (human), You (agent)`,
    )
    expect(await instructionsAt(2)).toContain(`- "Support" (id: ${joined.id}) [ACTIVE] — Members`)
    expect(await parley.messages(joined.id)).toMatchObject([{ senderId: agent.id, status: 'COMPLETE' }])
  })
})

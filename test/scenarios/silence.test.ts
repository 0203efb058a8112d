import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import type { TestServer } from '../support/served.ts'
import { type Person, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const OUTCOMES = `query ($id: ID!) { space(id: $id) { messages(first: 1) { edges { node { outcomes {
  agent { name } kind reason readingSince readAt run { status } } } } } } }`

describe.each(RULE_STACKS)('an agent that stays silent, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  let ann: Person
  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  /** Returns the outcomes of the only human message of a space, by name, once no agent is at work. */
  async function outcomesFor(client: Person['client'], space: Read): Promise<Record<string, Read>> {
    return until('all agents have read the message', async () => {
      const { outcomes } = (await stage.ask(client, OUTCOMES, { id: space.id })).messages.edges[0].node
      const isRead = outcomes.every(({ readAt }: Read) => readAt !== null)
      return isRead && Object.fromEntries(outcomes.map((outcome: Read) => [outcome.agent.name, outcome]))
    })
  }

  test('shows that it read the message, when, and why it stays silent', async () => {
    ann = await stage.person('Ann')
    const agents = [await stage.bot('Ada'), await stage.bot('Bob'), await stage.bot('Cleo')]
    const space = await stage.space('Desk', [ann, ...agents], { routing: 'BROADCAST' })
    parley.models.script(({ instructions, step, toolNames }) => {
      if (instructions.includes('You are Ada')) {
        return step === 0
          ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Noon.' } }]
          : [{ text: 'Done.' }]
      }
      if (instructions.includes('You are Bob')) {
        expect(toolNames).toContain('skip')
        return [{ toolCall: 'skip', input: { reason: 'Ada knows the menu.' } }]
      }
      return [{ text: 'Not addressed to me.\nMore thoughts.' }]
    })
    await stage.say(ann, space, 'When is lunch?')
    const seen = await outcomesFor(ann.client, space)
    expect(seen).toMatchObject({
      Ada: { kind: 'RUN', reason: null, run: { status: 'COMPLETED' } },
      Bob: { kind: 'SKIPPED', reason: 'Ada knows the menu.' },
      Cleo: { kind: 'SKIPPED', reason: null, run: { status: 'COMPLETED' } },
    })
    const { readingSince, readAt } = seen['Cleo'] as Read
    expect(Date.parse(readingSince)).toBeLessThanOrEqual(Date.parse(readAt))
    expect((await outcomesFor(stage.admin, space))['Cleo']).toMatchObject({ reason: 'Not addressed to me.' })
  })

  test('counts as silent if it only took a note', async () => {
    ann = await stage.person('Ann')
    const noting = await stage.bot('Nora')
    const space = await stage.space('Desk', [ann, noting], { routing: 'BROADCAST' })
    const memories = [{ key: 'lunch', value: 'noon' }]
    parley.models.script(({ step }) =>
      step === 0 ? [{ toolCall: 'setMemories', input: { memories } }] : [{ text: 'Noted.' }],
    )
    await stage.say(ann, space, 'Lunch is at noon.')
    expect(await outcomesFor(ann.client, space)).toMatchObject({ Nora: { kind: 'SKIPPED', reason: null } })
  })

  test('is not offered the skip tool if it is alone with one human', async () => {
    ann = await stage.person('Ann')
    const agent = await stage.bot('Solo')
    const space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
    parley.models.script(() => [{ text: 'Hm.' }])
    await stage.say(ann, space, 'Hello')
    await outcomesFor(ann.client, space)
    const { toolNames } = await parley.models.request(() => true)
    expect(toolNames).not.toContain('skip')
  })

  test('the reason and times of a think cycle that skipped are kept', async () => {
    ann = await stage.person('Ann')
    const agent = await stage.bot('Mind', { mind: 'PERSISTENT' })
    const space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
    parley.models.script(() => [{ toolCall: 'skip', input: { reason: 'Not for me.' } }])
    await stage.say(ann, space, 'Hello')
    const { Mind } = await outcomesFor(ann.client, space)
    expect(Mind).toMatchObject({ kind: 'SKIPPED', reason: 'Not for me.', run: null, readAt: expect.any(String) })
  })

  test('hides the reason from people who may not read its sources', async () => {
    ann = await stage.person('Ann')
    const eve = await stage.person('Eve')
    const agent = await stage.bot('Keeper', { mind: 'PERSISTENT' })
    const secret = await stage.space('Secret', [ann, agent], { routing: 'BROADCAST' })
    const confidential = `mutation ($input: UpdateSpaceInput!) { updateSpace(input: $input) { __typename ... on Error { message } } }`
    await stage.ask(ann.client, confidential, { input: { id: secret.id, confidential: true } })
    parley.models.script(() => [{ toolCall: 'skip', input: { reason: 'The plan is red.' } }])
    await stage.say(ann, secret, 'The plan is red.')
    expect(await outcomesFor(ann.client, secret)).toMatchObject({ Keeper: { reason: 'The plan is red.' } })
    const { prisma } = parley.app.platform.db
    // Writes the row as a cycle with events of both spaces does.
    const open = await stage.space('Open', [ann, eve, agent], { routing: 'BROADCAST' })
    await stage.say(ann, open, 'Which colour?')
    await outcomesFor(ann.client, open)
    await prisma.outcome.updateMany({ where: { agentId: agent.id }, data: { label: [secret.id] } })
    expect(await outcomesFor(ann.client, open)).toMatchObject({ Keeper: { reason: 'The plan is red.' } })
    expect(await outcomesFor(eve.client, open)).toMatchObject({ Keeper: { kind: 'SKIPPED', reason: null } })
  })
})

import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { type Named, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const MIND = `query ($id: ID!, $first: Int, $after: String) { agent(id: $id) { internals {
  memories { id key } goals { description } plans { name } inbox { edges { node { payload } } }
  consciousness { cycleCount cycles(first: $first, after: $after) { pageInfo { hasNextPage endCursor }
    edges { node { id endedAt summary tokenEstimate messages run { id } } } } } } } }`
const NODE = `query ($id: ID!) { node(id: $id) { ... on Cycle { id summary } } }`
const FORGET_CYCLE = `mutation ($input: ForgetCycleInput!) { forgetCycle(input: $input) {
  __typename ... on ForgetCyclePayload { forgottenCycleId agent { internals { consciousness { cycleCount } } } } } }`
const FORGET_SPACE = `mutation ($input: ForgetSpaceInput!) { forgetSpace(input: $input) {
  __typename ... on ForgetSpacePayload { agent { id internals { consciousness { cycleCount } } } } } }`
const RESET = `mutation ($input: ResetConsciousnessInput!) { resetConsciousness(input: $input) { __typename } }`
const LOG = `query ($targetId: ID) { auditLog(targetId: $targetId) { edges { node { action detail refused } } } }`
const PAUSE = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }`

describe.each(RULE_STACKS)('forgetting by an admin, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    ;({ parley, stage } = opened)
  })

  const mindOf = async ({ id }: Named, page: object = {}): Promise<Read> =>
    (await stage.ask(stage.admin, MIND, { id, ...page })).internals
  const nodesOf = ({ edges }: Read): Read[] => edges.map(({ node }: Read) => node)
  const cyclesOf = async (agent: Named, page: object = {}) => (await mindOf(agent, page)).consciousness.cycles
  const logOf = async (targetId: string) => nodesOf(await stage.ask(stage.admin, LOG, { targetId }))
  const shownLast = () =>
    parley.models.requests
      .at(-1)
      ?.messages.map(({ text }) => text)
      .join('\n')

  test('can remove one cycle: an admin reads each cycle with its time, size and content, oldest first', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
    for (const [index, text] of ['First', 'Second'].entries()) {
      parley.models.script(forAgent('Ada', () => [{ text: `${text} was read.` }]))
      await stage.say(husam, space, `${text} things`)
      await stage.endedRuns(ada, index + 1)
    }
    const [one] = nodesOf(await cyclesOf(ada, { first: 1 }))
    const { pageInfo } = await cyclesOf(ada, { first: 1 })
    expect(pageInfo.hasNextPage).toBe(true)
    const [two] = nodesOf(await cyclesOf(ada, { first: 1, after: pageInfo.endCursor }))
    const runs = await stage.runsOf(ada)
    for (const [index, cycle] of [one, two].entries()) {
      const word = ['First', 'Second'][index]
      expect(cycle).toMatchObject({ summary: `${word} was read.`, run: { id: runs[index].id } })
      expect(JSON.stringify(cycle.messages)).toContain(`${word} things`)
      expect(cycle.tokenEstimate).toBeGreaterThan(0)
      expect(Date.parse(cycle.endedAt)).toBeLessThanOrEqual(Date.now() + 5000)
    }
    expect(await stage.ask(stage.admin, NODE, { id: one.id })).toEqual({ id: one.id, summary: 'First was read.' })
    expect(await stage.ask(husam.client, NODE, { id: one.id })).toBeNull()
    const input = { cycleId: one.id }
    expect(await stage.ask(husam.client, FORGET_CYCLE, { input })).toEqual({ __typename: 'ForbiddenError' })
    expect(await stage.ask(stage.admin, FORGET_CYCLE, { input })).toEqual({
      __typename: 'ForgetCyclePayload',
      forgottenCycleId: one.id,
      agent: { internals: { consciousness: { cycleCount: 1 } } },
    })
    expect(await stage.ask(stage.admin, FORGET_CYCLE, { input })).toEqual({ __typename: 'NotFoundError' })
    expect(nodesOf(await cyclesOf(ada))).toMatchObject([{ id: two.id }])
    expect(await logOf(one.id)).toMatchObject([
      { action: 'forgetCycle', refused: false },
      { action: 'forgetCycle', refused: true },
    ])
    await stage.say(husam, space, 'Third things')
    await stage.endedRuns(ada, 3)
    expect(shownLast()).toMatch(/^(?![\s\S]*First things)[\s\S]*Second things[\s\S]*Third things/)
  })

  test('can remove everything that an agent received in one space: cycles, memories, goals, plans and inbox events', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const spaces = [await stage.space('Kept', [husam, ada], { routing: 'BROADCAST' })]
    spaces.push(await stage.space('Lost', [husam, ada], { routing: 'BROADCAST' }))
    const plan = (name: string) => ({ name, instruction: 'Look.', afterSeconds: 900 })
    for (const [index, space] of spaces.entries()) {
      const { name } = space
      const learns = [
        { toolCall: 'setMemories', input: { memories: [{ key: name, value: 'x' }] } },
        { toolCall: 'setGoals', input: { goals: [{ description: name }] } },
        { toolCall: 'setPlans', input: { plans: [plan(name)] } },
      ]
      parley.models.script(forAgent('Ada', steps(learns, [{ text: 'Noted.' }])))
      await stage.say(husam, space, `Heard in ${name}`)
      await stage.endedRuns(ada, index + 1)
    }
    await stage.ask(stage.admin, PAUSE, { input: { id: ada.id, paused: true } })
    for (const space of spaces) await stage.say(husam, space, `Waits in ${space.name}`)
    const before = await mindOf(ada)
    expect(before.memories.map(({ id }: Read) => id)).toEqual([
      expect.stringMatching(/^mem_[0-9a-f]{32}$/),
      expect.stringMatching(/^mem_/),
    ])
    expect(nodesOf(before.inbox)).toHaveLength(2)
    const input = { agentId: ada.id, spaceId: spaces[1]?.id }
    expect(await stage.ask(husam.client, FORGET_SPACE, { input })).toEqual({ __typename: 'ForbiddenError' })
    for (const wrong of [{ agentId: husam.id }, { spaceId: ada.id }, { spaceId: 'a\u0000b' }])
      expect(await stage.ask(stage.admin, FORGET_SPACE, { input: { ...input, ...wrong } })).toEqual({
        __typename: 'NotFoundError',
      })
    expect(await stage.ask(stage.admin, FORGET_SPACE, { input })).toEqual({
      __typename: 'ForgetSpacePayload',
      agent: { id: ada.id, internals: { consciousness: { cycleCount: 1 } } },
    })
    const { memories, goals, plans, inbox, consciousness } = await mindOf(ada)
    expect([memories, goals, plans]).toMatchObject([[{ key: 'Kept' }], [{ description: 'Kept' }], [{ name: 'Kept' }]])
    const left = JSON.stringify([inbox, consciousness])
    expect(left).toMatch(/Waits in Kept.*Heard in Kept/)
    expect(left).not.toContain('in Lost')
    expect(await logOf(spaces[1]?.id ?? '')).toMatchObject([
      { action: 'forgetSpace', detail: input, refused: false },
      { action: 'forgetSpace', refused: true },
      { action: 'createSpace' },
    ])
  })

  /** Creates an agent with a cycle about Husam's message, which runs until `go`. */
  async function thinkingAbout(text: string) {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Read.' }]))
    await stage.say(husam, space, text)
    await until('it thinks', () => parley.models.requests.length > 0)
    return { husam, ada, space, go: held.open }
  }

  test('can be a reset: a cycle that is in progress becomes the first of the new consciousness', async () => {
    const { husam, ada, space, go } = await thinkingAbout('First things')
    go()
    await stage.endedRuns(ada, 1)
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Read.' }]))
    await stage.say(husam, space, 'Second things')
    await until('it thinks again', () => parley.models.requests.length > 1)
    await stage.ask(stage.admin, RESET, { input: { agentId: ada.id } })
    expect(nodesOf(await cyclesOf(ada))).toEqual([])
    held.open()
    const [, second] = await stage.endedRuns(ada, 2)
    expect(nodesOf(await cyclesOf(ada))).toMatchObject([{ run: { id: second.id } }])
    await stage.say(husam, space, 'Third things')
    await stage.endedRuns(ada, 3)
    expect(shownLast()).toMatch(/^(?![\s\S]*First things)[\s\S]*Second things[\s\S]*Third things/)
  })

  test('forgetting also applies to a running cycle', async () => {
    const { husam, ada, space, go } = await thinkingAbout('Forget this')
    await stage.ask(stage.admin, FORGET_SPACE, { input: { agentId: ada.id, spaceId: space.id } })
    go()
    expect(await stage.endedRuns(ada, 1)).toMatchObject([{ status: 'COMPLETED' }])
    expect(nodesOf(await cyclesOf(ada))).toEqual([])
    await stage.say(husam, space, 'Read this')
    await stage.endedRuns(ada, 2)
    expect(shownLast()).toMatch(/^(?![\s\S]*Forget this)[\s\S]*Read this/)
    expect(nodesOf(await cyclesOf(ada))).toHaveLength(1)
  })
})

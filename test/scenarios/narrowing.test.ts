import { describe, expect, test } from 'vitest'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, type Read, type Stage } from '../support/stage.ts'

const WAKES =
  'query ($spaceId: ID!, $mentionedIds: [ID!]) { wakes(spaceId: $spaceId, mentionedIds: $mentionedIds) { name } }'
const UPDATE = `mutation ($input: UpdateSpaceInput!) {
  updateSpace(input: $input) { __typename ... on UpdateSpacePayload { space { mentionNarrows } } } }`

describe('who is woken', () => {
  let stage: Stage
  let parley: TestServer
  playScenarios('embedded', (opened) => ({ parley, stage } = opened))

  const wakes = async ({ client }: Person, space: Named, mentionedIds: string[] | null = null) =>
    (await stage.ask(client, WAKES, { spaceId: space.id, mentionedIds })).map(({ name }: Read) => name)
  const outcomesOf = async (space: Named) =>
    ((await stage.messagesIn(space)).at(-1) as Read).outcomes.map(
      ({ agent, kind }: Read) => `${agent.name} ${kind === 'NOT_ROUTED' ? 'sleeps' : 'is woken'}`,
    )

  test('a mention narrows a BROADCAST space with that setting, from the next message on, as `wakes` predicts', async () => {
    const alice = await stage.person('Alice')
    const [ada, bea] = [await stage.bot('Ada'), await stage.bot('Bea', { mind: 'PERSISTENT' })]
    const space = await stage.space('Room', [alice, ada, bea], { routing: 'BROADCAST' })
    const narrow = (mentionNarrows: boolean) =>
      stage.ask(alice.client, UPDATE, { input: { id: space.id, mentionNarrows } })
    expect(await wakes(alice, space, [ada.id])).toEqual(['Ada', 'Bea'])
    await stage.say(alice, space, 'one', { mentionedAgentId: ada.id })
    expect((await outcomesOf(space)).toSorted()).toEqual(['Ada is woken', 'Bea is woken'])
    expect(await narrow(true)).toMatchObject({ space: { mentionNarrows: true } })
    expect(await wakes(alice, space, [ada.id])).toEqual(['Ada'])
    expect(await wakes(alice, space, [ada.id, bea.id, alice.id, 'agt_0'])).toEqual(['Ada', 'Bea'])
    expect(await wakes(alice, space)).toEqual(['Ada', 'Bea'])
    await stage.say(alice, space, 'two', { mentionedAgentId: ada.id })
    expect((await outcomesOf(space)).toSorted()).toEqual(['Ada is woken', 'Bea sleeps'])
    await narrow(false)
    await stage.say(alice, space, 'three', { mentionedAgentId: ada.id })
    expect((await outcomesOf(space)).toSorted()).toEqual(['Ada is woken', 'Bea is woken'])
    await stage.endedRuns(ada, 3)
  })

  test('`wakes` follows the routing, pauses and turns, and is readable by those who see the space', async () => {
    const [alice, eve] = [await stage.person('Alice'), await stage.person('Eve')]
    const [ada, bea] = [await stage.bot('Ada'), await stage.bot('Bea')]
    const chain = await stage.space('Chain', [alice, ada, bea], { routing: 'MENTION_CHAIN' })
    expect(await wakes(alice, chain)).toEqual(['Ada'])
    expect(await wakes(alice, chain, [bea.id, ada.id])).toEqual(['Ada'])
    await stage.say(alice, chain, 'Hello')
    expect(await wakes(alice, chain)).toEqual(['Bea'])
    const door = await stage.space('Door', [alice, ada, bea])
    expect(await wakes(alice, door, [bea.id])).toEqual(['Ada'])
    await stage.ask(stage.admin, `mutation { updateAgent(input: { id: "${ada.id}", paused: true }) { __typename } }`)
    expect(await wakes(alice, door)).toEqual([])
    const { errors } = await eve.client.ask(WAKES, { spaceId: door.id })
    expect(errors?.[0]?.extensions?.['code']).toBe('NOT_FOUND')
    await stage.endedRuns(ada, 1)
    expect(parley.models.refusals).toEqual([])
  })

  test('a tool or MCP server may list calls that always require approval', async () => {
    const url = 'https://mcp.example/mcp'
    const schema = { type: 'object' }
    const tool = { name: 'a', description: 'A', inputSchema: schema, execution: 'EXTERNAL' }
    const { id } = await stage.bot('Ada', {
      tools: [tool, { ...tool, name: 'b', alwaysAsk: true }],
      mcpServers: [
        { name: 'x', url },
        { name: 'y', url, alwaysAskTools: ['pay', 'pay', 'send'] },
      ],
    })
    const SETTINGS =
      'query ($id: ID!) { agent(id: $id) { internals { tools { alwaysAsk } mcpServers { alwaysAskTools } } } }'
    expect((await stage.ask(stage.admin, SETTINGS, { id })).internals).toEqual({
      tools: [{ alwaysAsk: false }, { alwaysAsk: true }],
      mcpServers: [{ alwaysAskTools: [] }, { alwaysAskTools: ['pay', 'send'] }],
    })
  })
})

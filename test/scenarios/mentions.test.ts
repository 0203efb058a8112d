import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, type Read, type Stage } from '../support/stage.ts'

const SEND = `mutation ($input: SendMessageInput!) {
  sendMessage(input: $input) { __typename
    ... on SendMessagePayload { sentMessage { id mentions { id name kind } mentionedAgent { id } } runs { agent { name } } }
    ... on BadInputError { message field } ... on Error { message code } }
}`
const UNREAD = '{ viewer { unreadCount unreadMentions } spaces { edges { node { id unreadCount unreadMentions } } } }'
const READ = `mutation ($input: MarkReadInput!) {
  markRead(input: $input) { ... on MarkReadPayload { space { unreadCount unreadMentions } } ... on Error { message } }
}`

describe.each(RULE_STACKS)('mentions of several members, on the %s stack', (stack) => {
  let stage: Stage
  let parley: TestServer
  playScenarios(stack, (opened) => ({ parley, stage } = opened))

  const send = (by: Person, space: Named, text: string, mentionedIds: string[], more: object = {}): Promise<Read> =>
    stage.ask(by.client, SEND, { input: { spaceId: space.id, text, mentionedIds, ...more } })
  const unreadOf = async ({ client }: Person, space: Named) => {
    const { data } = await client.ask<Read>(UNREAD)
    const { unreadCount, unreadMentions } = data.spaces.edges.find(({ node }: Read) => node.id === space.id).node
    return { unreadCount, unreadMentions, inAll: data.viewer.unreadMentions }
  }

  test('name people and agents in the order given by the sender, and wake the agents as a single mention does', async () => {
    const [alice, bob] = [await stage.person('Alice'), await stage.person('Bob')]
    const [ada, bea, cleo] = [await stage.bot('Ada'), await stage.bot('Bea'), await stage.bot('Cleo')]
    const space = await stage.space('Room', [alice, bob, ada, bea, cleo], {
      routing: 'BROADCAST',
      mentionNarrows: true,
    })
    const { sentMessage, runs } = await send(alice, space, 'All of you', [bob.id, bea.id, ada.id, bea.id])
    expect(sentMessage.mentions.map(({ name }: Read) => name)).toEqual(['Bob', 'Bea', 'Ada'])
    expect(sentMessage.mentionedAgent).toEqual({ id: bea.id })
    expect(runs.map(({ agent }: Read) => agent.name).toSorted()).toEqual(['Ada', 'Bea'])
    await stage.endedRuns(ada, 1)
    await stage.endedRuns(bea, 1)
    // If a message mentions only people, this does not restrict which agents wake.
    const toBob = await send(alice, space, 'Bob?', [bob.id])
    expect(toBob).toMatchObject({ sentMessage: { mentionedAgent: null } })
    expect(toBob.runs).toHaveLength(3)
    await stage.endedRuns(cleo, 1)
    expect(parley.models.refusals).toEqual([])
  })

  test('name only one agent under MENTION_CHAIN routing; otherwise visible members that are not paused, at most 20', async () => {
    const [alice, bob, eve] = [await stage.person('Alice'), await stage.person('Bob'), await stage.person('Eve')]
    const [ada, bea] = [await stage.bot('Ada'), await stage.bot('Bea')]
    const outside = await stage.bot('Outside')
    const space = await stage.space('Chain', [alice, bob, ada, bea], { routing: 'MENTION_CHAIN' })
    const refused = (code: string, field?: string) => ({ __typename: code, ...(field && { field }) })
    const bad = refused('BadInputError', 'input.mentionedIds')
    expect(await send(alice, space, 'Both', [ada.id, bea.id])).toMatchObject(bad)
    expect(await send(alice, space, 'Elsewhere', [outside.id])).toMatchObject(bad)
    expect(await send(alice, space, 'Hidden', [eve.id])).toMatchObject(refused('NotFoundError'))
    expect(await send(alice, space, 'Nonsense', ['\0'])).toMatchObject(refused('NotFoundError'))
    const many = Array.from({ length: 21 }, (_, n) => `hum_${n}`)
    expect(await send(alice, space, 'Many', many)).toMatchObject(bad)
    const person = await send(alice, space, 'A person', [], { mentionedAgentId: bob.id })
    expect(person).toMatchObject(refused('BadInputError', 'input.mentionedAgentId'))
    await stage.ask(stage.admin, `mutation { updateAgent(input: { id: "${bea.id}", paused: true }) { __typename } }`)
    expect(await send(alice, space, 'Paused', [bea.id])).toMatchObject(bad)
    const { runs } = await send(alice, space, 'One agent', [bob.id, ada.id])
    expect(runs).toEqual([{ agent: { name: 'Ada' } }])
    await stage.endedRuns(ada, 1)
  })

  test('count as unread for the mentioned people, until they read the message', async () => {
    const [alice, bob] = [await stage.person('Alice'), await stage.person('Bob')]
    const space = await stage.space('People', [alice, bob], { routing: 'BROADCAST' })
    await send(alice, space, 'one', [bob.id])
    await send(alice, space, 'two', [])
    const { sentMessage: third } = await send(alice, space, 'three', [bob.id, alice.id])
    await send(bob, space, 'myself', [bob.id])
    expect(await unreadOf(bob, space)).toEqual({ unreadCount: 3, unreadMentions: 2, inAll: 2 })
    expect(await unreadOf(alice, space)).toEqual({ unreadCount: 1, unreadMentions: 0, inAll: 0 })
    const read = await stage.ask(bob.client, READ, { input: { spaceId: space.id, messageId: third.id } })
    expect(read.space).toEqual({ unreadCount: 0, unreadMentions: 0 })
  })

  test('are part of the content that an idempotency key covers', async () => {
    const [alice, bob] = [await stage.person('Alice'), await stage.person('Bob')]
    const space = await stage.space('Keys', [alice, bob], { routing: 'BROADCAST' })
    const once = await send(alice, space, 'Hello', [bob.id], { idempotencyKey: 'k' })
    expect(await send(alice, space, 'Hello', [bob.id], { idempotencyKey: 'k' })).toEqual(once)
    const other = await send(alice, space, 'Hello', [], { idempotencyKey: 'k' })
    expect(other).toMatchObject({ __typename: 'ConflictError' })
  })
})

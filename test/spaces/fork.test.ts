import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, type Read, resultsIn, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const FORK = `mutation ($input: ForkSpaceInput!) { forkSpace(input: $input) { __typename
  ... on ForkSpacePayload { space { id name description routing confidential unreadCount adminAgent { id } members { __typename id name } } }
  ... on Error { message } } }`
const MESSAGES = `query ($id: ID!) { space(id: $id) { messages { edges { node {
  id seq text status createdAt sender { id name } mentions { id } versions { text } deletedAt
  reactions { emoji entities { id } } outcomes { kind }
  parts { __typename ... on FilePart { file { id name } } ... on ToolCallPart { toolCall { id toolName status input output } } } } } } } }`
const AGENT = `query ($id: ID!) { agent(id: $id) { id name internals { instructions memories { key value } goals { description } plans { name }
  versions { edges { node { number note } } }
  tools { name execution approval { quorum approvers { id } } } mcpServers { name approval { quorum } } } } }`
const SEARCH = `query ($query: String!, $spaceId: ID) { search(query: $query, spaceId: $spaceId) { edges { node { message { id } file { id } } } } }`
const DELETE = 'mutation ($input: DeleteMessageInput!) { deleteMessage(input: $input) { __typename } }'
const EDIT = 'mutation ($input: EditMessageInput!) { editMessage(input: $input) { __typename } }'
const REACT = 'mutation ($input: ReactInput!) { react(input: $input) { __typename } }'
const ADD = 'mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }'

const tool = (name: string, execution: string, more: object = {}) => ({
  name,
  description: 'Acts.',
  inputSchema: { type: 'object' },
  execution,
  ...(execution === 'HTTP' ? { url: 'https://tools.example/act', headers: { authorization: 'Bearer s3cret' } } : {}),
  ...more,
})

describe.each(RULE_STACKS)('a copy of a space, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(
    stack,
    (opened) => {
      parley = opened.parley
      stage = opened.stage
    },
    { PARLEY_MAX_NEW_SPACES_PER_DAY: '3' },
  )

  const fork = (person: Pick<Person, 'client'>, input: object) => stage.ask(person.client, FORK, { input })
  const forked = async (person: Pick<Person, 'client'>, input: object): Promise<Read> => {
    const { message, space } = await fork(person, input)
    expect(message).toBeUndefined()
    return space
  }
  const messages = async ({ client }: Pick<Person, 'client'>, { id }: { id: string }): Promise<Read[]> =>
    (await stage.ask(client, MESSAGES, { id })).messages.edges.map(({ node }: Read) => node)
  const agentOf = (space: Read): Named => space.members.find(({ __typename }: Read) => __typename === 'Agent')
  const agent = (id: string): Promise<Read> => stage.ask(stage.admin, AGENT, { id })
  const operator = () => ({ client: stage.admin })
  const prisma = () => parley.app.platform.db.prisma
  /** Returns everything that is stored about a space and its agent. */
  const rowsOf = async ({ id: spaceId }: Named, { id: agentId }: Named) => {
    const by = { orderBy: { id: 'asc' } } as const
    const rows = [
      await prisma().space.findUnique({ where: { id: spaceId } }),
      await prisma().message.findMany({ where: { spaceId }, ...by }),
      await prisma().membership.findMany({ where: { spaceId }, orderBy: { entityId: 'asc' } }),
      await prisma().toolCall.findMany({ where: { agentId }, ...by }),
      await prisma().run.findMany({ where: { agentId }, ...by }),
      await prisma().agent.findUnique({ where: { id: agentId } }),
      await prisma().agentTool.findMany({ where: { agentId } }),
      await prisma().memory.findMany({ where: { agentId }, ...by }),
      await prisma().plan.findMany({ where: { agentId }, ...by }),
    ]
    return JSON.stringify(rows)
  }
  const remember = (agentId: string, key: string, marks: string[] = []) =>
    prisma().memory.create({
      data: {
        id: newId('mem'),
        agentId,
        key,
        value: `CANARY ${key}`,
        updatedAt: new Date(),
        places: marks,
        label: marks,
      },
    })

  test('has the viewer and copies of the agents, and messages with senders, times, files, reactions and calls', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const bot = await stage.bot('Iris', { tools: [tool('show', 'SPACE', { visible: true })] })
    const space = await stage.space('Desk', [ann, bob, bot], { routing: 'BROADCAST', description: 'For questions' })
    const body = Readable.from([Buffer.from('the word in the file is heron')])
    const file = await parley.app.domain.files.upload(
      { scope: 'HUMAN', id: bob.id, tokenId: null, expiresAt: null },
      { name: 'birds.txt', body, bytes: null },
    )
    const first = (await stage.say(bob, space, 'The word: pelican', { fileIds: [file.id] })).sentMessage.id
    await stage.endedRuns(bot, 1)
    await stage.ask(bob.client, EDIT, { input: { messageId: first, text: 'The word: pelicans' } })
    await stage.ask(ann.client, REACT, { input: { messageId: first, emoji: '👍' } })
    parley.models.script(steps([{ toolCall: 'show', input: { a: 1, targetSpaceId: space.id } }]))
    await stage.say(ann, space, 'Show it', { mentionedIds: [bot.id] })
    await until('the call waits', async () => (await messages(ann, space))[2]?.parts[0]?.toolCall?.status === 'WAITING')
    parley.models.script(() => [{ text: 'Nothing to do.' }])
    await stage.say(bob, space, 'Later')
    await stage.endedRuns(bot, 2)
    const before = await rowsOf(space, bot)

    const copy = await forked(ann, { spaceId: space.id, atSeq: 3 })
    const copied = agentOf(copy)
    expect(copy).toMatchObject({
      name: 'Desk (copy)',
      description: 'For questions',
      routing: 'BROADCAST',
      unreadCount: 0,
    })
    expect(copy.members.map(({ name }: Read) => name).sort()).toEqual(['Ann', 'Iris'])
    const [here, there] = [await messages(ann, copy), (await messages(ann, space)).slice(0, 3)]
    const same = ({ seq, text, createdAt, sender }: Read) => ({ seq, text, createdAt, name: sender.name })
    expect(here.map(same)).toEqual(there.map(same))
    expect(here.map(({ sender }) => sender.id)).toEqual([bob.id, ann.id, copied.id])
    expect(here[0]).toMatchObject({
      versions: [{ text: 'The word: pelican' }],
      reactions: [{ emoji: '👍', entities: [{ id: ann.id }] }],
      outcomes: [],
    })
    expect(here[0].parts.at(-1).file.name).toBe('birds.txt')
    expect(here[1].mentions).toEqual([{ id: copied.id }])
    expect(here[2]).toMatchObject({
      status: 'INTERRUPTED',
      parts: [{ toolCall: { toolName: 'show', status: 'CANCELED', input: { a: 1 } } }],
    })
    const shared = (id: string) => there.some((other) => JSON.stringify(other).includes(id))
    expect(
      here
        .flatMap(({ id, parts }) => [id, ...parts.flatMap((part: Read) => part.file?.id ?? part.toolCall?.id ?? [])])
        .filter(shared),
    ).toEqual([])
    for (const query of ['pelicans', 'heron']) {
      const found = await stage.ask(ann.client, SEARCH, { query, spaceId: copy.id })
      expect(found.edges.map(({ node }: Read) => node.message.id)).toEqual([here[0].id])
    }
    expect(await rowsOf(space, bot)).toBe(before)
    expect(await stage.runsOf(copied)).toEqual([])
    expect(await messages(ann, await forked(ann, { spaceId: copy.id, name: 'Again' }))).toHaveLength(3)
  })

  test('wakes only copies of the agents, whose tools with external effects require approval', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const policy = { quorum: 2, approverIds: [ann.id, bob.id] }
    const bot = await stage.bot('Otto', {
      tools: [
        tool('act', 'HTTP'),
        tool('ask', 'EXTERNAL'),
        tool('show', 'SPACE'),
        tool('pay', 'HTTP', { approval: policy }),
      ],
      mcpServers: [{ name: 'files', url: 'https://mcp.example/mcp', approval: policy, approvalTools: ['write'] }],
    })
    const space = await stage.space('Desk', [ann, bob, bot])
    await remember(bot.id, 'open')
    await parley.app.domain.plans.create(parley.admin, {
      agentId: bot.id,
      name: 'Daily',
      instruction: 'Work',
      schedule: { cron: '0 0 1 1 *' },
    })
    const copy = await forked(operator(), { spaceId: space.id })
    const copied = agentOf(copy)
    expect(copy.adminAgent).toEqual({ id: copied.id })
    const { internals } = await agent(copied.id)
    expect(internals).toMatchObject({
      instructions: 'Answer briefly.',
      memories: [{ key: 'open', value: 'CANARY open' }],
      plans: [],
      versions: { edges: [{ node: { number: 1, note: `Copy of ${bot.id}` } }] },
      mcpServers: [{ name: 'files', approval: { quorum: 2 } }],
    })
    expect(
      internals.tools.map(({ name, approval }: Read) => [name, approval?.quorum, approval?.approvers?.length]),
    ).toEqual([
      ['act', 1, undefined],
      ['ask', 1, undefined],
      ['show', undefined, undefined],
      ['pay', 2, 2],
    ])
    expect((await prisma().mcpServer.findFirstOrThrow({ where: { agentId: copied.id } })).approvalTools).toBeNull()
    await prisma().mcpServer.deleteMany({ where: { agentId: copied.id } })
    const mine = await forked(ann, { spaceId: copy.id }).catch(() => null)
    expect(mine).toBeNull()
    await stage.ask(stage.admin, ADD, { input: { spaceId: copy.id, entityId: ann.id } })
    parley.models.script(forAgent('Otto', steps([{ toolCall: 'act', input: { spaceId: copy.id } }])))
    await stage.say(ann, copy, 'Act')
    const call = await until('the call waits', () =>
      prisma().toolCall.findFirst({ where: { agentId: copied.id, approvalState: 'PENDING' } }),
    )
    expect(call).toMatchObject({ toolName: 'act', status: 'WAITING', spaceId: copy.id })
    expect(await stage.runsOf(bot)).toEqual([])
  })

  test('a copy of a confidential space is confidential, and neither messages nor memories reach anyone who may not read them', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const bot = await stage.bot('Vera')
    const confidential = { confidential: true, routing: 'BROADCAST' }
    const space = await stage.space('Ann alone', [ann, bot], confidential)
    const bobs = await stage.space('Bob alone', [bob, bot], confidential)
    await remember(bot.id, 'of this space', [space.id])
    await remember(bot.id, 'of another space', [bobs.id])
    await stage.say(ann, space, 'CANARY word')
    await stage.endedRuns(bot, 1)
    const copy = await forked(ann, { spaceId: space.id })
    const copied = agentOf(copy)
    expect(copy.confidential).toBe(true)
    expect((await agent(copied.id)).internals.memories).toEqual([
      { key: 'of this space', value: 'CANARY of this space' },
    ])

    parley.models.script(
      forAgent('Vera', steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: copy.id, text: 'Fine.' } }])),
    )
    await stage.say(ann, copy, 'Speak')
    await stage.endedRuns(copied, 1)
    expect((await messages(ann, copy)).at(-1)).toMatchObject({ text: 'Fine.', sender: { id: copied.id } })
    await stage.ask(ann.client, ADD, { input: { spaceId: copy.id, entityId: bob.id } }).catch(() => {})
    await stage.ask(stage.admin, ADD, { input: { spaceId: copy.id, entityId: bob.id } })
    await stage.say(ann, copy, 'Speak again')
    await stage.endedRuns(copied, 2)
    expect((await messages(ann, copy)).at(-1)).toMatchObject({ text: 'Speak again' })
    expect(JSON.stringify(parley.models.requests.at(-1) && resultsIn(parley.models.requests.at(-1)!))).toContain(
      'CONFIDENTIAL',
    )
    expect(parley.models.requests.map(({ instructions }) => instructions).join()).not.toContain('CANARY of another')
  })

  test('can be made by members who may add every agent, and by admins; a viewer has a daily limit', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const [open, closed] = [await stage.bot('Open'), await stage.bot('Closed', { addableBy: 'ADMINS' })]
    const [room, other] = [await stage.space('Room', [ann, open]), await stage.space('Other', [ann, closed])]
    await stage.say(ann, room, 'One')
    expect(await fork(bob, { spaceId: room.id })).toMatchObject({ __typename: 'NotFoundError' })
    expect(await fork(ann, { spaceId: other.id })).toMatchObject({ __typename: 'ForbiddenError' })
    expect((await fork(operator(), { spaceId: other.id })).__typename).toBe('ForkSpacePayload')
    for (const atSeq of [-1, 2])
      expect(await fork(ann, { spaceId: room.id, atSeq })).toMatchObject({ __typename: 'BadInputError' })
    expect(await fork(ann, { spaceId: room.id, name: ' ' })).toMatchObject({ __typename: 'BadInputError' })
    expect(await messages(ann, await forked(ann, { spaceId: room.id, atSeq: 0 }))).toEqual([])
    for (let n = 0; n < 2; n++) await forked(ann, { spaceId: room.id })
    expect(await fork(ann, { spaceId: room.id })).toMatchObject({ __typename: 'LimitExceededError' })
  })

  test('a copy with many messages can be searched soon', async () => {
    const ann = await stage.person('Ann')
    const space = await stage.space('Long', [ann])
    const first = (await stage.say(ann, space, 'The first word is ostrich')).sentMessage.id
    await prisma().$executeRaw`
      INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth)
      SELECT left(left(${first}, 16) || md5(n::text || ${first}), 36), ${space.id}, n, ${ann.id}, 'COMPLETE', '[{"type":"text","text":"filler"}]', ${first}, 0
      FROM generate_series(2, 1700) n`
    await prisma().space.update({ where: { id: space.id }, data: { lastSeq: 1700 } })
    const copy = await forked(ann, { spaceId: space.id })
    const found = await until('the message is found', async () => {
      const { edges } = await stage.ask(ann.client, SEARCH, { query: 'ostrich', spaceId: copy.id })
      return edges[0]?.node.message.id ?? null
    })
    const { id, seq } = await prisma().message.findFirstOrThrow({ where: { spaceId: copy.id, seq: 1 } })
    expect([found, seq]).toEqual([id, 1])
    await until(
      'all is indexed',
      async () => (await prisma().searchText.count({ where: { spaceId: copy.id } })) === 1700,
    )
    expect((await prisma().space.findUniqueOrThrow({ where: { id: copy.id } })).unindexedSeq).toBeNull()
  })

  test('loses messages that are deleted in the original, and those of people who are erased', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const space = await stage.space('Desk', [ann, bob])
    const secret = (await stage.say(ann, space, 'CANARY one')).sentMessage.id
    await stage.say(bob, space, 'CANARY two')
    const copy = await forked(ann, { spaceId: space.id })
    const again = await forked(ann, { spaceId: copy.id })
    await stage.ask(ann.client, DELETE, { input: { messageId: secret } })
    await stage.ask(
      stage.admin,
      'mutation ($id: ID!) { eraseHuman(input: { id: $id, messages: true }) { __typename } }',
      { id: bob.id },
    )
    for (const one of [space, copy, again]) expect(JSON.stringify(await messages(ann, one))).not.toContain('CANARY')
    const spaceId = { in: [space.id, copy.id, again.id] }
    expect(await prisma().searchText.count({ where: { spaceId, plain: { contains: 'canary' } } })).toBe(0)
  })
})

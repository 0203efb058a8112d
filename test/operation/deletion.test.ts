import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { gate, sayIn } from '../support/space-tools.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const DELETE_AGENT = `mutation ($id: ID!) {
  deleteAgent(input: { id: $id }) { __typename ... on DeleteAgentPayload { deletedAgentId } ... on Error { message } }
}`
const DELETE_SPACE = `mutation ($id: ID!) {
  deleteSpace(input: { id: $id }) { __typename ... on DeleteSpacePayload { deletedSpaceId } ... on Error { message } }
}`
const AGENT = `query ($id: ID!) {
  agent(id: $id) { __typename id kind name deletedAt model mind paused internals { instructions } }
}`
const DIRECTORY = `query ($search: String) { agents(search: $search) { edges { node { id } } } }`
const MEMBERS = `query ($id: ID!) { space(id: $id) { members { id } } }`
const SPACE = `query ($id: ID!) { space(id: $id) { id } }`
const SPACES = `{ spaces(first: 100) { edges { node { id } } } }`
const MESSAGE = `query ($id: ID!) { message(id: $id) { id } }`
const NODE = `query ($id: ID!) { node(id: $id) { id } }`
const ADD = `mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }`
const PLAN = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } } }`
const WATCH = `subscription ($id: ID!) {
  spaceMessages(spaceId: $id) { __typename ... on MemberLeft { entity { id name } } }
}`
const ACTIVITY = `subscription ($id: ID!) { agentActivity(spaceId: $id) { __typename } }`
const MIND = `query ($id: ID!) { agent(id: $id) { internals { inbox { edges { node { id } } } consciousness { messages } } } }`

const isFinished = ({ spaceMessages }: Read) => spaceMessages.__typename === 'MessageFinished'

/** Returns the code of the error that ends a subscription. */
const codeOf = async ({ ended }: { ended: Promise<unknown> }) =>
  ((await ended) as { extensions: { code: string } }[])[0]?.extensions.code

describe.each(RULE_STACKS)('deletion, on the %s stack', (stack) => {
  let parley: TestServer
  let beside: TestServer | null
  let stage: Stage

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    // Returns another process of the deployment, if the stack allows one.
    beside = stack === 'postgres' ? await startTestServer({ stack, beside: parley, worker: false }) : null
    stage = await openStage(parley)
  })
  afterAll(async () => {
    await beside?.close()
    await parley?.close()
  })
  beforeEach(() => {
    parley.models.reset()
    parley.models.script(() => [{ text: 'Nothing to do.' }])
  })

  /** Returns the same person at the other process. */
  const elsewhere = ({ id, client }: Person) =>
    beside === null ? client : beside.clientOf({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })
  const membersOf = async (space: Named) =>
    (await stage.ask(stage.admin, MEMBERS, { id: space.id })).members.map(({ id }: Read) => id)

  describe('an agent', () => {
    test('an agent disappears from all lists and spaces, and remains as id, kind and name to those who see its work', async () => {
      const [husam, eve] = [await stage.person('Husam'), await stage.person('Eve')]
      const ada = await stage.bot('Ada Zyx')
      const space = await stage.space('Team', [husam, ada])
      parley.models.script(forAgent('Ada Zyx', steps([sayIn(space.id, 'Here I am.')], [{ text: '' }])))
      await stage.say(husam, space, 'Hello')
      await stage.endedRuns(ada, 1)
      const watching = (await elsewhere(husam)).subscribe(WATCH, { id: space.id })
      await watching.first(() => true)
      expect(await stage.ask(husam.client, DELETE_AGENT, { id: ada.id })).toMatchObject({
        __typename: 'ForbiddenError',
      })
      expect(await stage.ask(stage.admin, DELETE_AGENT, { id: ada.id })).toEqual({
        __typename: 'DeleteAgentPayload',
        deletedAgentId: ada.id,
      })
      await watching.first(({ spaceMessages: event }: Read) => event.entity?.id === ada.id)
      watching.stop()
      const remains = {
        __typename: 'Agent',
        id: ada.id,
        kind: 'AGENT',
        name: 'Ada Zyx',
        mind: 'STATELESS',
        internals: null,
      }
      for (const client of [stage.admin, husam.client]) {
        const found = await stage.ask(client, AGENT, { id: ada.id })
        expect(found).toMatchObject({ ...remains, deletedAt: expect.stringMatching(/Z$/) })
      }
      expect(await stage.ask(eve.client, AGENT, { id: ada.id })).toBeNull()
      expect((await stage.messagesIn(space)).at(-1)).toMatchObject({ sender: { id: ada.id, name: 'Ada Zyx' } })
      expect((await stage.ask(stage.admin, DIRECTORY, { search: 'Zyx' })).edges).toEqual([])
      expect(await membersOf(space)).toEqual([husam.id])
      for (const client of [husam.client, stage.admin])
        expect(await stage.ask(client, ADD, { input: { spaceId: space.id, entityId: ada.id } })).toEqual({
          __typename: 'NotFoundError',
        })
      expect(await stage.ask(stage.admin, DELETE_AGENT, { id: ada.id })).toMatchObject({ __typename: 'NotFoundError' })
    })

    test('an agent’s runs, plans and webhooks end with the agent', async () => {
      const husam = await stage.person('Husam')
      const ada = await stage.bot('Ada', { maxConcurrentRuns: 1 })
      const space = await stage.space('Team', [husam, ada])
      const schedule = { cron: '0 0 1 1 *' }
      const input = { agentId: ada.id, name: 'Report', instruction: 'Write it.', schedule }
      const { plan } = await stage.ask(stage.admin, PLAN, { input })
      const { webhook } = await parley.app.domain.webhooks.create(parley.admin, {
        agentId: ada.id,
        serviceName: 'Jira',
      })
      const held = gate()
      parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Done.' }]))
      await stage.say(husam, space, 'One')
      await until('it thinks', () => parley.models.requests.length > 0)
      await stage.say(husam, space, 'Two')
      await stage.ask(stage.admin, DELETE_AGENT, { id: ada.id })
      expect(await stage.endedRuns(ada, 2)).toMatchObject([{ status: 'CANCELED' }, { status: 'CANCELED' }])
      const runs = await parley.app.platform.db.prisma.run.findMany({ where: { agentId: ada.id } })
      expect(runs.map(({ stopReason }) => stopReason)).toEqual(['GONE', 'GONE'])
      held.open()
      for (const id of [plan.id, webhook.id]) expect(await stage.ask(stage.admin, NODE, { id })).toBeNull()
      const posted = await fetch(`${parley.origin}/hooks/agents/${webhook.id}`, { method: 'POST', body: '{}' })
      expect(posted.status).toBe(404)
      expect((await stage.messagesIn(space)).map(({ outcomes }) => outcomes[0].kind)).toEqual(['DROPPED', 'DROPPED'])
    })

    test('a persistent agent with a running cycle leaves no memory behind', async () => {
      const husam = await stage.person('Husam')
      const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
      const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
      await stage.say(husam, space, 'Remember the first thing')
      await stage.endedRuns(ada, 1)
      const held = gate()
      parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Done.' }]))
      await stage.say(husam, space, 'And the second')
      await until('it thinks', () => parley.models.requests.length > 1)
      await stage.say(husam, space, 'And the third')
      await stage.ask(stage.admin, DELETE_AGENT, { id: ada.id })
      held.open()
      expect(await stage.endedRuns(ada, 2)).toMatchObject([{ status: 'COMPLETED' }, { status: 'CANCELED' }])
      const { prisma } = parley.app.platform.db
      const where = { agentId: ada.id }
      expect([await prisma.cycle.count({ where }), await prisma.inboxEvent.count({ where })]).toEqual([0, 0])
      const outcomes = (await stage.messagesIn(space)).map(({ outcomes }) => outcomes[0].kind)
      expect(outcomes).toEqual(['INBOX', 'DROPPED', 'DROPPED'])
    })
  })

  test('calls that await approval from earlier cycles are interrupted, and so are the messages that show them', async () => {
    const husam = await stage.person('Husam')
    const form = { description: '', inputSchema: { type: 'object' } }
    const tools = [
      { ...form, name: 'fill_in', execution: 'SPACE' },
      { ...form, name: 'order', execution: 'INTERNAL', approval: {} },
    ]
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE', tools })
    const space = await stage.space('Team', [husam, ada])
    const asked = [{ toolCall: 'fill_in' }, { toolCall: 'order' }]
    parley.models.script(forAgent('Ada', steps([{ toolCall: 'enter_space', input: { spaceId: space.id } }], asked)))
    await stage.say(husam, space, 'Ask me')
    await stage.endedRuns(ada, 1)
    const statuses = async () => (await stage.messagesIn(space)).slice(1).map(({ status }) => status)
    expect(await statuses()).toEqual(['REQUIRES_ACTION', 'REQUIRES_ACTION'])
    const live = husam.client.subscribe(WATCH, { id: space.id })
    await live.first(() => true)
    await stage.ask(stage.admin, DELETE_AGENT, { id: ada.id })
    expect(await statuses()).toEqual(['INTERRUPTED', 'INTERRUPTED'])
    await until('both messages are updated', () => live.seen.filter(isFinished).length === 2)
    expect(await parley.app.platform.db.prisma.inboxEvent.count({ where: { agentId: ada.id } })).toBe(0)
    live.stop()
  })

  test('a worker ends the runs of an agent that was deleted by a process that died', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [husam, ada])
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Done.' }]))
    await stage.say(husam, space, 'One')
    await until('it thinks', () => parley.models.requests.length > 0)
    await parley.app.platform.db.prisma.agent.delete({ where: { id: ada.id } })
    expect(await stage.endedRuns(ada, 1)).toMatchObject([{ status: 'CANCELED' }])
    held.open()
  })

  describe('a space', () => {
    test('a space is deleted by an admin or its last human, and its subscriptions end with NOT_FOUND', async () => {
      const [husam, eve] = [await stage.person('Husam'), await stage.person('Eve')]
      const ada = await stage.bot('Ada')
      const space = await stage.space('Team', [husam, eve, ada])
      const { sentMessage } = await stage.say(husam, space, 'Hello')
      await stage.endedRuns(ada, 1)
      expect(await stage.ask(husam.client, DELETE_SPACE, { id: space.id })).toMatchObject({
        __typename: 'ForbiddenError',
      })
      const stranger = await stage.person('Stranger')
      expect(await stage.ask(stranger.client, DELETE_SPACE, { id: space.id })).toMatchObject({
        __typename: 'NotFoundError',
      })
      await parley.app.domain.members.remove(parley.admin, { spaceId: space.id, entityId: eve.id })
      const { prisma } = parley.app.platform.db
      const usage = () => prisma.rootUsage.count({ where: { rootId: sentMessage.id } })
      expect(await usage()).toBe(1)
      const far = await elsewhere(husam)
      const admin = beside === null ? stage.admin : await beside.clientOf(beside.admin)
      const watching = [husam.client, far, admin].flatMap((client) => [
        client.subscribe(WATCH, { id: space.id }),
        client.subscribe(ACTIVITY, { id: space.id }),
      ])
      await Promise.all(watching.map((live) => live.first(() => true)))
      expect(await stage.ask(husam.client, DELETE_SPACE, { id: space.id })).toEqual({
        __typename: 'DeleteSpacePayload',
        deletedSpaceId: space.id,
      })
      expect(await Promise.all(watching.map(codeOf))).toEqual(watching.map(() => 'NOT_FOUND'))
      for (const client of [husam.client, stage.admin, far]) {
        expect(await stage.ask(client, SPACE, { id: space.id })).toBeNull()
        expect(await stage.ask(client, MESSAGE, { id: sentMessage.id })).toBeNull()
        const { edges } = await stage.ask(client, SPACES)
        expect(edges.map(({ node }: Read) => node.id)).not.toContain(space.id)
      }
      expect(await prisma.message.count({ where: { spaceId: space.id } })).toBe(0)
      expect(await usage()).toBe(0)
      expect(await prisma.space.count({ where: { id: space.id } })).toBe(0)
    })

    test('a space is deleted with the runs that it triggered, and every persistent agent forgets it', async () => {
      const husam = await stage.person('Husam')
      const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
      const bob = await stage.bot('Bob')
      const kept = await stage.space('Kept', [husam, ada], { routing: 'BROADCAST' })
      const space = await stage.space('Team', [husam, ada, bob], { routing: 'BROADCAST' })
      await stage.say(husam, kept, 'Keep this')
      await stage.endedRuns(ada, 1)
      await stage.say(husam, space, 'Forget this')
      await stage.endedRuns(ada, 2)
      await stage.endedRuns(bob, 1)
      const held = gate()
      parley.models.script(() => [{ gate: held.promise }, { text: 'Done.' }])
      const before = parley.models.requests.length
      await stage.say(husam, space, 'Forget this too')
      await until('both think', () => parley.models.requests.length === before + 2)
      await stage.say(husam, kept, 'Not yet read')
      await stage.ask(stage.admin, DELETE_SPACE, { id: space.id })
      held.open()
      expect((await stage.endedRuns(bob, 2))[1]).toMatchObject({ status: 'CANCELED', triggerSpace: null })
      expect((await stage.endedRuns(ada, 4))[2]).toMatchObject({ status: 'CANCELED', triggerSpace: null })
      const { internals } = await stage.ask(stage.admin, MIND, { id: ada.id })
      const mind = JSON.stringify(internals.consciousness.messages)
      expect(mind).toMatch(/Keep this.*Not yet read/)
      expect(mind).not.toContain('Forget')
    })

    test('a cycle that ends just afterwards does not remember a deleted space', async () => {
      const husam = await stage.person('Husam')
      const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
      const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
      const held = gate()
      parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Done.' }]))
      await stage.say(husam, space, 'Forget this')
      await until('it thinks', () => parley.models.requests.length > 0)
      const { prisma } = parley.app.platform.db
      await prisma.space.update({ where: { id: space.id }, data: { deletedAt: new Date() } })
      held.open()
      await stage.endedRuns(ada, 1)
      const where = { agentId: ada.id }
      expect([await prisma.cycle.count({ where }), await prisma.inboxEvent.count({ where })]).toEqual([0, 0])
    })

    test('a worker completes the deletion of a space that was interrupted when a process died', async () => {
      const husam = await stage.person('Husam')
      const space = await stage.space('Team', [husam, await stage.bot('Ada')])
      await stage.say(husam, space, 'Hello')
      const { prisma } = parley.app.platform.db
      await prisma.space.update({ where: { id: space.id }, data: { deletedAt: new Date() } })
      await parley.app.domain.deletion.sweep(AbortSignal.abort())
      expect(await prisma.space.count({ where: { id: space.id } }), 'after a shutdown').toBe(1)
      await parley.app.domain.deletion.sweep()
      expect(await prisma.space.count({ where: { id: space.id } })).toBe(0)
    })
  })
})

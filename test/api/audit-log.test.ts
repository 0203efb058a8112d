import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRetention } from '../../src/operation/retention.ts'
import { RULE_STACKS } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

const LOG = `query ($actorId: ID, $targetId: ID, $action: String, $first: Int, $after: String) {
  auditLog(actorId: $actorId, targetId: $targetId, action: $action, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor } edges { node { id at actor { id name } serviceName action targetId detail refused } } } }`

describe.each(RULE_STACKS)('the audit log, on the %s stack', (stack) => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
  async function ask(operation: string, variables: object, client = admin): Promise<any> {
    const { data, errors } = await client.ask<Record<string, unknown>>(operation, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0]
  }
  // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
  const entries = async (filter: object): Promise<any[]> =>
    // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
    (await ask(LOG, filter)).edges.map(({ node }: any) => node)

  test('records each creation and change with its actor and target, without content or secrets', async () => {
    const made = await ask(
      `mutation ($input: CreateAgentInput!) { createAgent(input: $input) { ... on CreateAgentPayload { agent { id } } } }`,
      {
        input: {
          name: 'A name of its own',
          instructions: 'Words that nobody else reads.',
          maxSteps: 7,
          tools: [
            {
              name: 'look',
              description: 'd',
              inputSchema: { type: 'object' },
              execution: 'HTTP',
              url: 'http://127.0.0.1:1/',
              headers: { authorization: 'Bearer sk-of-the-tool' },
            },
          ],
        },
      },
    )
    const [entry] = await entries({ targetId: made.agent.id })
    expect(entry).toMatchObject({ action: 'createAgent', actor: null, serviceName: null, refused: false })
    expect(entry.id).toMatch(/^aud_/)
    expect(entry.detail).toMatchObject({
      maxSteps: 7,
      fields: expect.arrayContaining(['name', 'instructions', 'tools']),
    })
    expect(JSON.stringify(entry)).not.toMatch(/A name of|Words that|sk-of-the-tool|127\.0\.0\.1/)

    const human = await parley.human('Husam')
    const client = await parley.clientOf(human)
    const space = await ask(
      'mutation ($input: CreateSpaceInput!) { createSpace(input: $input) { ... on CreateSpacePayload { space { id } } } }',
      { input: { name: 'A room', memberIds: [made.agent.id] } },
      client,
    )
    const removal = { input: { spaceId: space.space.id, entityId: made.agent.id } }
    await ask('mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }', removal, client)
    expect(await entries({ actorId: human.id })).toMatchObject([
      {
        action: 'removeMember',
        targetId: space.space.id,
        detail: removal.input,
        actor: { id: human.id, name: 'Husam' },
      },
      { action: 'createSpace', targetId: space.space.id, detail: { memberIds: [made.agent.id] } },
    ])
    const one = await ask(LOG, { actorId: human.id, first: 1 })
    expect(one.pageInfo.hasNextPage).toBe(true)
    const next = await ask(LOG, { actorId: human.id, first: 1, after: one.pageInfo.endCursor })
    expect(next.edges).toMatchObject([{ node: { action: 'createSpace' } }])
    const node = await ask('query ($id: ID!) { node(id: $id) { ... on AuditEntry { action } } }', { id: entry.id })
    expect(node).toEqual({ action: 'createAgent' })
    expect(await ask(LOG, {}, client)).toBeNull()
  })

  test('records refused actions, and no failed ones', async () => {
    const human = await parley.human('Eve')
    const client = await parley.clientOf(human)
    const agent = await parley.agent('Ada')
    const update = 'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }'
    await ask(update, { input: { id: agent.id, name: 'Mine now' } }, client)
    const refused = [
      { action: 'updateAgent', refused: true, actor: { id: human.id }, detail: { fields: ['id', 'name'] } },
    ]
    expect(await entries({ targetId: agent.id })).toMatchObject(refused)
    await ask(update, { input: { id: agent.id, name: '' } })
    await ask(update, { input: { id: `agt_${'0'.repeat(32)}`, name: 'X' } })
    expect(await entries({ targetId: agent.id })).toHaveLength(1)
    expect(await entries({ targetId: `agt_${'0'.repeat(32)}` })).toEqual([])
  })

  test('does not record that people type, except while an admin acts as somebody', async () => {
    const { human, space } = await parley.room('Ada')
    const type = 'mutation ($input: SetTypingInput!) { setTyping(input: $input) { __typename } }'
    const typing = { input: { spaceId: space.id } }
    const answer = await ask(type, typing, await parley.clientOf(human))
    expect(answer).toEqual({ __typename: 'SetTypingPayload' })
    expect(await entries({ action: 'setTyping' })).toEqual([])

    const { secret } = await parley.app.domain.sessions.actAs(parley.admin, { humanId: human.id })
    const acting = createParleyClient({ origin: parley.origin, token: secret })
    await ask(type, typing, acting)
    await acting.close()
    expect(await entries({ action: 'setTyping' })).toMatchObject([
      { actor: { id: human.id }, targetId: space.id, detail: { actingAdminId: null } },
    ])
  })

  test('records what an agent changes by a tool, with the name of the tool and without the content', async () => {
    const { human, agent, space } = await parley.room('Ada')
    parley.models.script(
      steps([
        { toolCall: 'set_memories', input: { memories: [{ key: 'k', value: 'a secret of hers' }] } },
        { toolCall: 'send_message', input: { text: 'Noted.' } },
      ]),
    )
    const { runs } = await parley.send(human, space.id, 'Remember')
    await parley.runWhen(runs[0]?.id ?? '')
    const found = await entries({ actorId: agent.id })
    expect(found).toMatchObject([
      { action: 'tool:set_memories', targetId: agent.id, detail: { runId: runs[0]?.id }, refused: false },
    ])
    expect(JSON.stringify(found)).not.toContain('secret of hers')
  })

  test('names the objects that a tool changed: each goal and plan, and the stopped run', async () => {
    const { human, agent, space } = await parley.room('Bea', { maxConcurrentRuns: 2 })
    const { prisma } = parley.app.platform.db
    const held = gate()
    parley.models.script(steps([{ gate: held.promise }, { text: 'Too late.' }]))
    const [stale] = (await parley.send(human, space.id, 'First')).runs
    await until('the agent thinks', () => parley.models.requests.length > 0)
    const goals = ['Read', 'Write'].map((description) => ({ description }))
    parley.models.script(
      steps([
        { toolCall: 'set_goals', input: { goals } },
        { toolCall: 'set_plans', input: { plans: [{ name: 'later', instruction: 'Look.', afterSeconds: 900 }] } },
        { toolCall: 'delete_plans', input: { names: ['later', 'never'] } },
        { toolCall: 'delete_goals', input: { ids: ['gol_never'] } },
        { toolCall: 'stop_run', input: { runId: stale?.id } },
        { toolCall: 'stop_run', input: { runId: stale?.id } },
      ]),
    )
    const { runs } = await parley.send(human, space.id, 'Plan')
    await parley.runWhen(runs[0]?.id ?? '')
    held.open()
    const made = (await prisma.goal.findMany({ where: { agentId: agent.id } })).map(({ id }) => id)
    const found = (await entries({ actorId: agent.id })).toReversed()
    expect(found.map(({ action }) => action)).toEqual([
      'tool:set_goals',
      'tool:set_goals',
      'tool:set_plans',
      'tool:delete_plans',
      'tool:stop_run',
    ])
    const [first, second, set, deleted, stopped] = found.map(({ targetId }) => targetId)
    expect([first, second].toSorted()).toEqual(made.toSorted())
    expect([set, stopped]).toEqual([deleted, stale?.id])
    expect(set).toMatch(/^pln_/)
    expect(found.at(-1).detail).toMatchObject({ runId: runs[0]?.id })
  })

  test('records the redemption of an invitation with its token', async () => {
    const human = await parley.human('Zoe')
    const { invitations, tokens } = parley.app.domain
    const { path } = await invitations.create(parley.admin, { humanId: human.id, expiresInSeconds: 60 })
    const secret = await invitations.redeem(path.split('/').at(-1) ?? '')
    const viewer = await tokens.authenticate(secret ?? '')
    expect(await entries({ actorId: human.id })).toMatchObject([
      { action: 'redeemInvitation', targetId: viewer?.tokenId, actor: { id: human.id } },
    ])
  })

  test('entries older than PARLEY_KEEP_AUDIT_DAYS are deleted, and nothing else', async () => {
    const { platform } = parley.app
    const at = new Date(platform.clock.now() - 3 * 86_400_000)
    const id = `aud_${at.getTime().toString(16).padStart(12, '0')}${'0'.repeat(20)}`
    const old = { id, at, action: 'createAgent' }
    await platform.db.prisma.auditEntry.create({ data: old })
    const before = await platform.db.prisma.auditEntry.count()
    const retention = { messagesDays: null, runsDays: null, auditDays: 2 }
    await createRetention({ ...platform, config: { ...platform.config, retention } }).sweep()
    expect(await platform.db.prisma.auditEntry.findUnique({ where: { id: old.id } })).toBeNull()
    expect(await platform.db.prisma.auditEntry.count()).toBe(before - 1)
  })

  test('an entry and its change are committed together or not at all, and entries cannot be modified', async () => {
    const { prisma } = parley.app.platform.db
    await expect(prisma.$executeRaw`UPDATE "AuditEntry" SET action = 'nothing'`).rejects.toThrow('append-only')
    await expect(prisma.$executeRaw`DELETE FROM "AuditEntry"`).rejects.toThrow('append-only')
    await prisma.$executeRaw`ALTER TABLE "AuditEntry" ADD CONSTRAINT full_disk CHECK (action = '') NOT VALID`
    const agents = await prisma.agent.count()
    const answered = await admin.ask(
      'mutation { createAgent(input: { name: "Never", instructions: "" }) { __typename } }',
    )
    await prisma.$executeRaw`ALTER TABLE "AuditEntry" DROP CONSTRAINT full_disk`
    expect(answered.errors).toMatchObject([{ extensions: { code: 'INTERNAL_SERVER_ERROR' } }])
    expect(await prisma.agent.count()).toBe(agents)
  })
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const ERROR =
  '... on Error { __typename code message ... on BadInputError { field } ... on RateLimitedError { retryAfterMs } }'

describe('mutations', () => {
  let parley: TestServer
  let admin: ParleyClient
  let ada: HumanViewer
  let human: ParleyClient
  let service: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    ada = await parley.human('Ada')
    admin = await parley.clientOf(parley.admin)
    human = await parley.clientOf(ada)
    service = await parley.clientOf({
      scope: 'SERVICE',
      id: '',
      name: 'hook',
      agentIds: null,
      tokenId: null,
      expiresAt: null,
    })
  })
  afterAll(() => parley?.close())

  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  async function mutate(client: ParleyClient, name: string, input: object, selection: string): Promise<any> {
    const type = `${name[0]?.toUpperCase()}${name.slice(1)}`
    const query = `mutation ($input: ${type}Input!) { ${name}(input: $input) { ... on ${type}Payload { ${selection} } ${ERROR} } }`
    const { data, errors } = await client.ask<Record<string, unknown>>(query, { input })
    expect(errors).toBeUndefined()
    return data?.[name]
  }

  test('createHuman', async () => {
    expect(await mutate(admin, 'createHuman', { name: ' Grace ', externalId: 'grace' }, 'human { name kind }')).toEqual(
      {
        human: { name: 'Grace', kind: 'HUMAN' },
      },
    )
    expect(await mutate(admin, 'createHuman', { name: 'Grace', externalId: 'grace' }, 'human { id }')).toMatchObject({
      code: 'CONFLICT',
    })
    expect(await mutate(admin, 'createHuman', { name: '🦜'.repeat(200) }, 'human { kind }')).toEqual({
      human: { kind: 'HUMAN' },
    })
    expect(await mutate(admin, 'createHuman', { name: 'x'.repeat(201) }, 'human { id }')).toMatchObject({
      __typename: 'BadInputError',
      code: 'BAD_INPUT',
      field: 'input.name',
    })
    expect(await mutate(human, 'createHuman', { name: 'Bob' }, 'human { id }')).toMatchObject({
      __typename: 'ForbiddenError',
    })
  })

  test('createAccessToken and revokeAccessToken', async () => {
    const selection = 'secret accessToken { id scope human { name } serviceName createdAt expiresAt revokedAt }'
    const { accessToken, secret } = await mutate(admin, 'createAccessToken', { grant: { humanId: ada.id } }, selection)
    expect(accessToken).toMatchObject({ scope: 'HUMAN', human: { name: 'Ada' }, serviceName: null, revokedAt: null })
    expect(secret).toMatch(/^prl_/)
    const grants = [{ admin: { label: 'me' } }, { service: { name: 'ci' } }]
    for (const grant of grants) {
      expect(
        await mutate(admin, 'createAccessToken', { grant, expiresAt: '2099-01-01T00:00:00Z' }, selection),
      ).toMatchObject({
        accessToken: { expiresAt: '2099-01-01T00:00:00.000Z' },
      })
    }
    expect(await mutate(admin, 'createAccessToken', { grant: { humanId: newId('hum') } }, 'secret')).toMatchObject({
      code: 'NOT_FOUND',
    })
    expect(await mutate(human, 'createAccessToken', { grant: { admin: {} } }, 'secret')).toMatchObject({
      code: 'FORBIDDEN',
    })
    const revoked = await mutate(admin, 'revokeAccessToken', { id: accessToken.id }, 'accessToken { id revokedAt }')
    expect(revoked).toEqual({ accessToken: { id: accessToken.id, revokedAt: expect.any(String) } })
    expect(await mutate(admin, 'revokeAccessToken', { id: newId('acc') }, 'accessToken { id }')).toMatchObject({
      code: 'NOT_FOUND',
    })
    const two = await admin.ask(
      'mutation { createAccessToken(input: { grant: { admin: {}, humanId: "x" } }) { __typename } }',
    )
    expect(two.errors).toMatchObject([{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }])
  })

  test('createAgent and updateAgent', async () => {
    const selection = `agent { id name description model mind toolset createdAt internals { instructions maxSteps tokenBudget maxConcurrentRuns
      phases { fromStep toolChoice activeTools } cycle { minRecentCycles } tools { name visible timeoutMs headerNames url inputSchema execution } mcpServers { name headerNames } } }`
    const tool = {
      name: 'lookup',
      description: 'd',
      inputSchema: { type: 'object' },
      execution: 'HTTP',
      url: 'https://example.com/x',
      headers: { 'X-Key': 'secret' },
    }
    const { agent } = await mutate(
      admin,
      'createAgent',
      { name: 'Researcher', instructions: 'Look things up.', tools: [tool], phases: [{ fromStep: 0 }] },
      selection,
    )
    expect(agent).toMatchObject({
      name: 'Researcher',
      description: null,
      mind: 'STATELESS',
      toolset: 'ACTIVE_SPACE',
      internals: {
        instructions: 'Look things up.',
        maxSteps: 20,
        tokenBudget: null,
        maxConcurrentRuns: 5,
        cycle: null,
        mcpServers: [],
        phases: [{ fromStep: 0, toolChoice: 'AUTO', activeTools: null }],
        tools: [
          {
            name: 'lookup',
            visible: false,
            timeoutMs: 30_000,
            headerNames: ['X-Key'],
            inputSchema: { type: 'object' },
          },
        ],
      },
    })
    const updated = await mutate(admin, 'updateAgent', { id: agent.id, name: 'Scholar', tokenBudget: 1000 }, selection)
    expect(updated.agent).toMatchObject({
      name: 'Scholar',
      internals: { tokenBudget: 1000, maxSteps: 20, tools: [{ headerNames: ['X-Key'] }] },
    })
    for (const field of ['name', 'maxSteps', 'maxToolCalls']) {
      expect(await mutate(admin, 'updateAgent', { id: agent.id, [field]: null }, selection)).toMatchObject({
        code: 'BAD_INPUT',
        field: `input.${field}`,
      })
    }
    expect(await mutate(admin, 'updateAgent', { id: newId('agt') }, selection)).toMatchObject({ code: 'NOT_FOUND' })
    expect(
      await mutate(admin, 'createAgent', { name: 'x', instructions: '', model: 'nothing:x' }, selection),
    ).toMatchObject({ field: 'input.model' })
    expect(await mutate(human, 'createAgent', { name: 'x', instructions: '' }, 'agent { id }')).toMatchObject({
      code: 'FORBIDDEN',
    })
  })

  test('spaces and their members', async () => {
    const agent = await parley.agent('Member')
    const selection =
      'space { id name description routing members { id name kind } adminAgent { id } unreadCount lastMessage { id } streamCursor }'
    const { space } = await mutate(human, 'createSpace', { name: 'Room', memberIds: [agent.id] }, selection)
    expect(space).toMatchObject({
      name: 'Room',
      routing: 'BROADCAST',
      members: [{ name: 'Ada' }, { name: 'Member' }],
      unreadCount: 0,
      lastMessage: null,
    })
    expect(await mutate(human, 'createSpace', { name: ' ' }, selection)).toMatchObject({ field: 'input.name' })
    expect(await mutate(service, 'createSpace', { name: 'x' }, selection)).toMatchObject({ code: 'FORBIDDEN' })
    expect(await mutate(human, 'createSpace', { name: 'x', memberIds: [newId('agt')] }, selection)).toMatchObject({
      code: 'NOT_FOUND',
    })
    const changed = await mutate(
      human,
      'updateSpace',
      { id: space.id, description: 'About things', routing: 'ADMIN' },
      selection,
    )
    expect(changed.space).toMatchObject({ description: 'About things', routing: 'ADMIN', adminAgent: { id: agent.id } })
    expect(await mutate(human, 'updateSpace', { id: newId('spc'), name: 'x' }, selection)).toMatchObject({
      code: 'NOT_FOUND',
    })
    expect(await mutate(human, 'addMember', { spaceId: space.id, entityId: agent.id }, 'space { id }')).toMatchObject({
      code: 'CONFLICT',
    })
    expect(
      await mutate(human, 'addMember', { spaceId: space.id, entityId: newId('hum') }, 'space { id }'),
    ).toMatchObject({ code: 'NOT_FOUND' })
    expect(
      await mutate(
        human,
        'removeMember',
        { spaceId: space.id, entityId: agent.id },
        'spaceId entityId space { members { name } }',
      ),
    ).toEqual({
      spaceId: space.id,
      entityId: agent.id,
      space: { members: [{ name: 'Ada' }] },
    })
    expect(
      await mutate(human, 'addMember', { spaceId: space.id, entityId: agent.id }, 'space { members { name } }'),
    ).toEqual({
      space: { members: [{ name: 'Ada' }, { name: 'Member' }] },
    })
    expect(await mutate(human, 'removeMember', { spaceId: space.id, entityId: ada.id }, 'space { id }')).toEqual({
      space: null,
    })
  })

  test('sendMessage and markRead', async () => {
    const agent = await parley.agent('Listener')
    const bob = await parley.human('Bob')
    const space = await parley.space(ada, [agent.id])
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const selection =
      'sentMessage { id seq status text sender { name } mentionedAgent { name } space { lastMessage { text } } } runs { id status agent { name } streamCursor }'
    const input = { spaceId: space.id, text: 'Hello', mentionedAgentId: agent.id, idempotencyKey: 'k' }
    const sent = await mutate(human, 'sendMessage', input, selection)
    expect(sent).toMatchObject({
      sentMessage: {
        seq: 1,
        status: 'COMPLETE',
        text: 'Hello',
        sender: { name: 'Ada' },
        mentionedAgent: { name: 'Listener' },
        space: { lastMessage: { text: 'Hello' } },
      },
      runs: [{ status: 'QUEUED', agent: { name: 'Listener' } }],
    })
    const repeat = await mutate(human, 'sendMessage', input, selection)
    expect([repeat.sentMessage.id, repeat.runs[0].id]).toEqual([sent.sentMessage.id, sent.runs[0].id])
    expect(await mutate(human, 'sendMessage', { ...input, text: 'Other' }, selection)).toMatchObject({
      code: 'CONFLICT',
    })
    for (const text of ['', ' \n ', 'a\0b', 'x'.repeat(32_001)]) {
      expect(await mutate(human, 'sendMessage', { spaceId: space.id, text }, selection)).toMatchObject({
        code: 'BAD_INPUT',
        field: 'input.text',
      })
    }
    expect(await mutate(admin, 'sendMessage', { spaceId: space.id, text: 'x' }, selection)).toMatchObject({
      code: 'FORBIDDEN',
    })
    expect(await mutate(human, 'sendMessage', { spaceId: newId('spc'), text: 'x' }, selection)).toMatchObject({
      code: 'NOT_FOUND',
    })

    const reader = await parley.clientOf(bob)
    const unread = await reader.ask(
      'query ($id: ID!) { space(id: $id) { unreadCount firstUnreadMessage { seq } } viewer { unreadCount } }',
      { id: space.id },
    )
    expect(unread.data).toEqual({
      space: { unreadCount: 1, firstUnreadMessage: { seq: 1 } },
      viewer: { unreadCount: 1 },
    })
    const mark = { spaceId: space.id, messageId: sent.sentMessage.id }
    expect(await mutate(reader, 'markRead', mark, 'space { unreadCount firstUnreadMessage { id } }')).toEqual({
      space: { unreadCount: 0, firstUnreadMessage: null },
    })
    expect(await mutate(reader, 'markRead', { ...mark, messageId: newId('msg') }, 'space { id }')).toMatchObject({
      code: 'NOT_FOUND',
    })
    expect(await mutate(admin, 'markRead', mark, 'space { id }')).toMatchObject({ code: 'FORBIDDEN' })
  })

  test('stopRun and submitToolResult', async () => {
    const agent = await parley.agent('Stopped')
    const space = await parley.space(ada, [agent.id])
    const { runs } = await parley.send(ada, space.id, 'Go')
    const runId = runs[0]?.id ?? ''
    expect(await mutate(human, 'stopRun', { runId: newId('run') }, 'run { id }')).toMatchObject({ code: 'NOT_FOUND' })
    expect(await mutate(human, 'stopRun', { runId }, 'run { id status finishedAt }')).toEqual({
      run: { id: runId, status: 'CANCELED', finishedAt: expect.any(String) },
    })
    expect(await mutate(human, 'stopRun', { runId, cascade: true }, 'run { id }')).toMatchObject({ code: 'CONFLICT' })
    const result = { toolCallId: newId('tcl'), result: 1 }
    expect(await mutate(human, 'submitToolResult', result, 'toolCall { id }')).toMatchObject({ code: 'NOT_FOUND' })
  })

  test('triggerAgent, plans and webhooks', async () => {
    const agent = await parley.agent('Triggered')
    const trigger = { agentId: agent.id, payload: { build: 7 }, idempotencyKey: 'once' }
    const selection = 'run { id status triggerType triggerSummary depth }'
    const first = await mutate(service, 'triggerAgent', trigger, selection)
    expect(first).toMatchObject({ run: { status: 'QUEUED', triggerType: 'SERVICE', depth: 0 } })
    expect(await mutate(service, 'triggerAgent', trigger, selection)).toEqual(first)
    expect(await mutate(admin, 'triggerAgent', { agentId: agent.id, payload: 1 }, selection)).toMatchObject({
      field: 'input.serviceName',
    })
    expect(await mutate(human, 'triggerAgent', trigger, selection)).toMatchObject({ code: 'FORBIDDEN' })
    expect(await mutate(service, 'triggerAgent', { ...trigger, agentId: newId('agt') }, selection)).toMatchObject({
      code: 'NOT_FOUND',
    })

    const plan = { agentId: agent.id, name: 'Daily', instruction: 'Report.', schedule: { cron: '0 9 * * *' } }
    const created = await mutate(
      admin,
      'createPlan',
      plan,
      'plan { id agent { name } name instruction cron nextRunAt enabled }',
    )
    expect(created.plan).toMatchObject({
      agent: { name: 'Triggered' },
      cron: '0 9 * * *',
      enabled: true,
      nextRunAt: expect.any(String),
    })
    expect(
      await mutate(admin, 'createPlan', { ...plan, name: 'Bad', schedule: { cron: 'never' } }, 'plan { id }'),
    ).toMatchObject({ code: 'BAD_INPUT' })
    expect(await mutate(human, 'createPlan', plan, 'plan { id }')).toMatchObject({ code: 'FORBIDDEN' })
    expect(await mutate(admin, 'deletePlan', { id: created.plan.id }, 'deletedPlanId')).toEqual({
      deletedPlanId: created.plan.id,
    })
    expect(await mutate(admin, 'deletePlan', { id: created.plan.id }, 'deletedPlanId')).toMatchObject({
      code: 'NOT_FOUND',
    })

    const hook = await mutate(
      admin,
      'createWebhook',
      { agentId: agent.id, serviceName: 'ci' },
      'secret webhook { id url serviceName agent { name } createdAt }',
    )
    expect(hook).toMatchObject({
      secret: expect.stringMatching(/^whsec_/),
      webhook: { serviceName: 'ci', agent: { name: 'Triggered' } },
    })
    expect(hook.webhook.url).toMatch(new RegExp(`/hooks/agents/${hook.webhook.id}$`))
    expect(await mutate(human, 'createWebhook', { agentId: agent.id, serviceName: 'ci' }, 'secret')).toMatchObject({
      code: 'FORBIDDEN',
    })
  })

  test('several mutations in one document each see the result of the previous one', async () => {
    const { data } = await human.ask(`mutation {
      a: createSpace(input: { name: "A" }) { ... on CreateSpacePayload { space { name } } }
      b: createSpace(input: { name: "B" }) { ... on CreateSpacePayload { space { name } } }
    }`)
    expect(data).toEqual({ a: { space: { name: 'A' } }, b: { space: { name: 'B' } } })
    const space = await parley.space(ada, [])
    const rename = (name: string) =>
      `updateSpace(input: { id: "${space.id}", name: "${name}" }) { ... on UpdateSpacePayload { space { name } } }`
    const renamed = await human.ask(`mutation { a: ${rename('One')} b: ${rename('Two')} }`)
    expect(renamed.data).toEqual({ a: { space: { name: 'One' } }, b: { space: { name: 'Two' } } })
  })

  test('instants and JSON are parsed exactly, and other values are refused', async () => {
    const grant = (expiresAt: string) => ({ input: { grant: { admin: {} }, expiresAt } })
    const query =
      'mutation ($input: CreateAccessTokenInput!) { createAccessToken(input: $input) { ... on CreateAccessTokenPayload { accessToken { expiresAt } } ... on Error { code } } }'
    const good = await admin.ask(query, grant('2099-06-01T12:00:00+02:00'))
    expect(good.data).toEqual({ createAccessToken: { accessToken: { expiresAt: '2099-06-01T10:00:00.000Z' } } })
    for (const bad of ['2099-06-01', '2099-02-30T00:00:00Z', 'tomorrow', '2099-06-01T12:00:00', '1']) {
      expect((await admin.ask(query, grant(bad))).errors, bad).toMatchObject([
        { extensions: { code: 'BAD_USER_INPUT' } },
      ])
    }
    const agent = await parley.agent('Json')
    const { data } = await service.ask(
      `mutation { triggerAgent(input: { agentId: "${agent.id}", payload: { list: [1, 2.5, "three", true, null, { deep: [] }] } }) { ... on TriggerAgentPayload { run { id } } } }`,
    )
    expect(data).toMatchObject({ triggerAgent: { run: { id: expect.any(String) } } })
  })
})

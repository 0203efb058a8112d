import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../../src/access/viewer.ts'
import type { McpServerInput } from '../../../src/agents/mcp-servers.ts'
import { resealAll } from '../../../src/operation/key-rotation.ts'
import { createSecretBox } from '../../../src/platform/secret-box.ts'
import { createGuardedHttp } from '../../../src/tools/custom/guarded-http.ts'
import { createMcpConnection } from '../../../src/tools/mcp/connection.ts'
import { createMcpOAuth } from '../../../src/tools/mcp/oauth.ts'
import { RULE_STACKS } from '../../support/application.ts'
import { inTurn, steps } from '../../support/model-server-script.ts'
import { type OAuthMcpServer, startOAuthMcpServer } from '../../support/oauth-mcp-server.ts'
import { startTestServer, type TestServer } from '../../support/served.ts'
import { gate } from '../../support/space-tools.ts'
import type { Read } from '../../support/stage.ts'
import { until } from '../../support/until.ts'

const PENDING = `{ viewer { pendingToolCalls { id toolName approval { mayDecide }
  authorization { serverName text url human { id } } } } }`
const CALL = `query ($id: ID!) { node(id: $id) { ... on ToolCall { status authorization { text url } } } }`
const DECIDE = `mutation ($input: DecideToolCallInput!) { decideToolCall(input: $input) { __typename
  ... on Error { message } } }`
const CONNECT = `mutation ($input: ConnectMcpServerInput!) { connectMcpServer(input: $input) { __typename
  ... on ConnectMcpServerPayload { tools { name } authorizationUrl error } ... on Error { message } } }`

describe.each(RULE_STACKS)('an MCP server that people use with their own authorization, on the %s stack', (stack) => {
  let parley: TestServer
  let mcp: OAuthMcpServer
  let ada: HumanViewer
  let bob: HumanViewer

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    ada = await parley.human('Ada')
    bob = await parley.human('Bob')
  })
  afterAll(() => parley?.close())
  beforeEach(async () => {
    parley.models.reset()
    mcp = await startOAuthMcpServer([{ name: 'send', description: 'Sends a mail.' }])
  })
  afterEach(() => mcp.close())

  const { ask, cookieOf } = {
    async ask(viewer: Viewer, query: string, variables: object = {}): Promise<Read> {
      const { data, errors } = await (await parley.clientOf(viewer)).ask<Record<string, Read>>(query, variables)
      expect(errors).toBeUndefined()
      return Object.values(data ?? {})[0]
    },
    async cookieOf({ id: humanId }: HumanViewer): Promise<string> {
      const input = { humanId, by: 'mail' as const, userAgent: undefined, replaced: [] }
      return `parley_session=${(await parley.app.domain.sessions.openForHuman(input)).secret}`
    },
  }

  const server = (input: Partial<McpServerInput> = {}): McpServerInput => ({
    name: 'mail',
    url: mcp.url,
    oauth: 'PERSON',
    ...input,
  })

  /** Creates an agent that is alone with people in a space. An admin has connected to its server, so its tools are known. */
  async function roomOf(people: HumanViewer[], input: { mcp?: Partial<McpServerInput>; agent?: object } = {}) {
    const agent = await parley.agent('Mina', { ...input.agent, mcpServers: [server(input.mcp)] })
    const begun = await ask(parley.admin, CONNECT, { input: { agentId: agent.id, server: server(input.mcp) } })
    const back = await fetch(mcp.consent(begun.authorizationUrl, 'the admin'))
    expect(back.status).toBe(200)
    const listed = await ask(parley.admin, CONNECT, { input: { agentId: agent.id, server: server(input.mcp) } })
    expect(listed.tools).toEqual([{ name: 'send' }])
    const space = await parley.space(people[0]!, [agent.id])
    for (const { id: entityId } of people.slice(1))
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId })
    return { agent, space }
  }
  const mails = () => parley.models.script(steps([{ toolCall: 'mail__send', input: {} }], [{ text: 'Sent.' }]))
  const outputOf = async (run: string) =>
    (await parley.app.domain.toolCalls.ofRuns([run])).get(run)?.map(({ output }) => output) ?? []
  async function runOf(sender: HumanViewer, spaceId: string) {
    const { runs } = await parley.send(sender, spaceId, 'Send it')
    return runs[0]!.id
  }
  /** Waits for the call for which a person has to connect. */
  const connecting = (viewer: HumanViewer): Promise<Read> =>
    until(`${viewer.id} has to connect`, async () => {
      const { pendingToolCalls } = await ask(viewer, PENDING)
      return pendingToolCalls.find(({ authorization }: Read) => authorization)
    })
  const open = (url: string, cookie: string) => fetch(url, { headers: { cookie }, redirect: 'manual' })
  /** Opens the link of a call as a person. Returns where the browser goes, and which cookies it then has. */
  async function begin(viewer: HumanViewer, url: string) {
    const session = await cookieOf(viewer)
    const answer = await open(url, session)
    expect(answer.status).toBe(303)
    const [attempt] = (answer.headers.get('set-cookie') ?? '').split(';')
    return { location: answer.headers.get('location') ?? '', cookie: `${session}; ${attempt}` }
  }
  async function connect(viewer: HumanViewer, user: string): Promise<void> {
    const { authorization } = await connecting(viewer)
    const { location, cookie } = await begin(viewer, authorization.url)
    const back = await open(mcp.consent(location, user).href, cookie)
    expect([back.status, await back.text()]).toEqual([200, expect.stringContaining('You are connected')])
  }

  test('a call waits until the person behind the run has connected, and continues with their token', async () => {
    const { space, agent } = await roomOf([ada, bob])
    mails()
    const first = await runOf(ada, space.id)
    const { id, authorization } = await connecting(ada)
    expect(authorization).toMatchObject({
      serverName: 'mail',
      text: 'Ada has to connect to the MCP server "mail" before this call is made.',
      url: `${parley.origin}/auth/mcp/calls/${id}`,
      human: { id: ada.id },
    })
    // Members see the words, but the address is for one person.
    expect(await ask(bob, CALL, { id })).toEqual({
      status: 'WAITING',
      authorization: { text: authorization.text, url: null },
    })
    expect(await ask(ada, DECIDE, { input: { toolCallId: id, approve: true } })).toMatchObject({
      __typename: 'ConflictError',
      message: expect.stringContaining('has connected to the MCP server "mail"'),
    })
    await connect(ada, 'ada')
    expect(await parley.runWhen(first)).toMatchObject({ status: 'COMPLETED', summary: 'Sent.' })
    expect(mcp.calledBy()).toEqual(['ada'])

    // Connecting once is enough, but only for that person.
    mails()
    expect(await parley.runWhen(await runOf(ada, space.id))).toMatchObject({ status: 'COMPLETED' })
    mails()
    const ofBob = await runOf(bob, space.id)
    await connect(bob, 'bob')
    expect(await parley.runWhen(ofBob)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada', 'ada', 'bob'])

    const { db, config } = parley.app.platform
    const rows = await db.prisma.mcpPersonAuthorization.findMany({ where: { agentId: agent.id } })
    for (const token of mcp.given) expect(JSON.stringify(rows)).not.toContain(token)
    // A rotated key also encrypts the tokens. Another URL, or erasure, removes them.
    const rotation = await resealAll(db, createSecretBox('the next key of this server', config.secretKey))
    expect(rotation.failed).toEqual([])
    const [own] = await db.prisma.mcpPersonAuthorization.findMany({ where: { agentId: agent.id, humanId: ada.id } })
    const context = `mcp-oauth:${agent.id}:mail:${ada.id}`
    expect(createSecretBox('the next key of this server').open(own!.sealed, context)).toContain('of-ada')
    await resealAll(db, createSecretBox(config.secretKey ?? '', 'the next key of this server'))
    const update = 'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }'
    await ask(parley.admin, update, { input: { id: agent.id, mcpServers: [server({ url: `${mcp.url}/other` })] } })
    expect(await db.prisma.mcpPersonAuthorization.count({ where: { agentId: agent.id } })).toBe(0)
  })

  test('the link, the callback and the state work for that person only, in their browser, once', async () => {
    const { space } = await roomOf([ada, bob])
    mails()
    const runId = await runOf(ada, space.id)
    const { authorization } = await connecting(ada)
    const { url } = authorization
    expect((await open(url, '')).status).toBe(401)
    expect((await open(url, await cookieOf(bob))).status).toBe(404)
    expect((await open(url.replace(/.{4}$/, 'ffff'), await cookieOf(ada))).status).toBe(404)
    // An admin who acts as the person does not count as the person.
    const actAs = 'mutation ($id: ID!) { actAs(input: { humanId: $id }) { ... on ActAsPayload { secret } } }'
    const { secret } = await ask(parley.admin, actAs, { id: ada.id })
    const acting = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, redirect: 'manual' })
    expect(acting.status).toBe(404)

    // The operator sees no address either, and a request from another site does not start an authorization.
    const asAda = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: CALL, variables: { id: url.split('/').at(-1) } }),
    })
    expect(await asAda.json()).toMatchObject({ data: { node: { authorization: { url: null } } } })
    const headers = { cookie: await cookieOf(ada), 'sec-fetch-site': 'cross-site' }
    const page = await fetch(url, { headers, redirect: 'manual' })
    expect([page.status, page.headers.get('set-cookie')]).toEqual([200, null])
    expect(await page.text()).toMatch(/Mina.*mail.*href="\/auth\/mcp\/calls\/tcl_/s)

    const begun = await begin(ada, url)
    // Bob gives his consent at the authorization server through Ada's link, and the callback opens in Bob's browser.
    const back = mcp.consent(begun.location, 'bob')
    expect((await open(back.href, await cookieOf(bob))).status).toBe(400)
    const mine = await cookieOf(bob)
    const [, attempt = ''] = begun.cookie.split('; ')
    expect((await open(back.href, `${mine}; ${attempt.replace(/=.*/, '=guessed')}`)).status).toBe(400)
    const forged = new URL(back)
    forged.searchParams.set('state', createSecretBox('another key of another server').seal('{}', 'mcp-oauth-state'))
    expect((await open(forged.href, begun.cookie)).status).toBe(400)
    expect(mcp.given.filter((token) => token.endsWith('of-bob'))).toEqual([])

    const right = mcp.consent(begun.location, 'ada')
    const answers = await Promise.all([open(right.href, begun.cookie), open(right.href, begun.cookie)])
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400])
    expect((await open(right.href, begun.cookie)).status).toBe(400)
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada'])
    expect((await open(url, await cookieOf(ada))).status).toBe(404)
  })

  test('if nobody has listed the tools yet, the person connects first, and then the tools appear', async () => {
    const agent = await parley.agent('Mina', { mcpServers: [server()] })
    const space = await parley.space(ada, [agent.id])
    parley.models.script(
      steps([{ toolCall: 'mail__connect', input: {} }], [{ toolCall: 'mail__send', input: {} }], [{ text: 'Sent.' }]),
    )
    const runId = await runOf(ada, space.id)
    await connect(ada, 'ada')
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', summary: 'Sent.' })
    expect(mcp.calledBy()).toEqual(['ada'])
  })

  test('a call that needs approval needs it after the person has connected', async () => {
    const approval = { quorum: 1, approverIds: [bob.id] }
    const { space } = await roomOf([ada, bob], { mcp: { approval } })
    mails()
    const runId = await runOf(ada, space.id)
    const { id } = await connecting(ada)
    expect((await ask(bob, PENDING)).pendingToolCalls).toEqual([])
    await connect(ada, 'ada')
    await until('Bob may decide', async () => {
      const { pendingToolCalls } = await ask(bob, PENDING)
      return pendingToolCalls.some((one: Read) => one.id === id && one.authorization === null && one.approval.mayDecide)
    })
    expect(mcp.calledBy()).toEqual([])
    const approve = { input: { toolCallId: id, approve: true } }
    expect(await ask(ada, DECIDE, approve)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await ask(bob, DECIDE, approve)).toMatchObject({ __typename: 'DecideToolCallPayload' })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada'])
  })

  test('a person may refuse, and a run that works for several people gets an error', async () => {
    const { space, agent } = await roomOf([ada, bob])
    mails()
    const runId = await runOf(ada, space.id)
    const { id } = await connecting(ada)
    await ask(ada, DECIDE, { input: { toolCallId: id, approve: false, reason: 'No' } })
    await parley.runWhen(runId)
    expect(await ask(parley.admin, CALL, { id })).toEqual({ status: 'FAILED', authorization: null })

    mails()
    const trigger = `mutation ($input: TriggerAgentInput!) { triggerAgent(input: $input) {
      ... on TriggerAgentPayload { run { id } } } }`
    const service: Viewer = { scope: 'SERVICE', id: '', name: 'cron', agentIds: null, tokenId: null, expiresAt: null }
    const triggered = await ask(service, trigger, { input: { agentId: agent.id, payload: {}, idempotencyKey: 'one' } })
    await parley.runWhen(triggered.run.id)
    expect(await outputOf(triggered.run.id)).toMatchObject([
      { error: { code: 'NO_PERSON', message: expect.stringContaining('does not work for a person') } },
    ])
    expect(mcp.calledBy()).toEqual([])
  })

  test('an admin who writes on behalf of a person does not use their token', async () => {
    const { space } = await roomOf([ada], { agent: { plainText: 'SPOKEN_IF_SILENT' } })
    mails()
    const first = await runOf(ada, space.id)
    await connect(ada, 'ada')
    await parley.runWhen(first)
    const boss = await parley.human('Boss')
    const refusal = expect.stringContaining('an admin acted as that person')
    for (const adminId of [boss.id, null]) {
      mails()
      const { runs } = await parley.send({ ...ada, acting: { adminId } }, space.id, 'Send it')
      await parley.runWhen(runs[0]!.id)
      expect(await outputOf(runs[0]!.id)).toMatchObject([{ error: { code: 'NO_PERSON', message: refusal } }])
    }
    // The same holds if the admin edits what the person wrote, or repeats it.
    for (const text of ['Send it', 'Send it to me']) {
      mails()
      const { message, runs } = await parley.send(ada, space.id, 'Send it')
      await parley.runWhen(runs[0]!.id)
      const acting = { ...ada, acting: { adminId: null } }
      mails()
      const input = { messageId: message.id, text, retryRuns: true }
      const edited = await parley.app.domain.messageChanges.edit(acting, input)
      await parley.runWhen(edited.runs[0]!.id)
      expect(await outputOf(edited.runs[0]!.id)).toMatchObject([{ error: { code: 'NO_PERSON', message: refusal } }])
    }
    expect(mcp.calledBy()).toEqual(['ada', 'ada', 'ada'])
  })

  test('a plan that works for a person does not use their token', async () => {
    const { space, agent } = await roomOf([ada])
    mails()
    const first = await runOf(ada, space.id)
    await connect(ada, 'ada')
    await parley.runWhen(first)
    const schedule = { cron: '0 0 1 1 *' }
    const { plan } = await ask(
      parley.admin,
      `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } } }`,
      { input: { agentId: agent.id, name: 'Mail', instruction: 'Send it.', schedule } },
    )
    await parley.app.platform.db.prisma.plan.update({ where: { id: plan.id }, data: { askers: [ada.id] } })
    mails()
    const { firing } = await ask(
      parley.admin,
      `mutation ($input: RunPlanNowInput!) { runPlanNow(input: $input) {
        ... on RunPlanNowPayload { firing { run { id } } } } }`,
      { input: { id: plan.id } },
    )
    await parley.runWhen(firing.run.id)
    expect(await outputOf(firing.run.id)).toMatchObject([
      { error: { code: 'NO_PERSON', message: expect.stringContaining('something other than messages of one person') } },
    ])
    expect(mcp.calledBy()).toEqual(['ada'])
  })

  test('a think cycle uses the token of a person only if all of its events are messages from that person', async () => {
    const { space, agent } = await roomOf([ada, bob], { agent: { mind: 'PERSISTENT' } })
    mails()
    await parley.send(ada, space.id, 'Send it')
    await connect(ada, 'ada')
    await until('the mail was sent', async () => mcp.calledBy().length === 1)
    await until('nothing waits', async () => {
      const { db } = parley.app.platform
      const where = { agentId: agent.id }
      const [all, open] = [
        await db.prisma.inboxEvent.count({ where }),
        await db.prisma.inboxEvent.count({ where: { ...where, doneAt: null } }),
      ]
      return all >= 2 && open === 0
    })
    const held = gate()
    const sends = [{ toolCall: 'mail__send', input: {} }]
    parley.models.reset()
    parley.models.script(inTurn([{ gate: held.promise }, { text: 'Thought.' }], sends, [{ text: 'Sent.' }]))
    await parley.send(bob, space.id, 'Think for long')
    await until('a cycle is running', async () => parley.models.requests.length > 0)
    await parley.send(ada, space.id, 'Send it')
    const trigger = 'mutation ($input: TriggerAgentInput!) { triggerAgent(input: $input) { __typename } }'
    const service: Viewer = { scope: 'SERVICE', id: '', name: 'cron', agentIds: null, tokenId: null, expiresAt: null }
    await ask(service, trigger, { input: { agentId: agent.id, payload: {}, idempotencyKey: 'also' } })
    held.open()
    const mixed = await until('a cycle took both', async () => {
      const where = { agentId: agent.id, type: 'SERVICE' as const, doneAt: { not: null } }
      return parley.app.platform.db.prisma.inboxEvent.findFirst({ where })
    })
    expect(await outputOf(mixed.runId ?? '')).toMatchObject([
      { error: { code: 'NO_PERSON', message: expect.stringContaining('something other than messages of one person') } },
    ])
    mails()
    await parley.send(ada, space.id, 'Send it')
    await until('the mail was sent', async () => mcp.calledBy().length === 2)
  })

  test('a token that is no longer accepted is refreshed, or the person is asked to connect again', async () => {
    const { space, agent } = await roomOf([ada])
    mails()
    const first = await runOf(ada, space.id)
    await connect(ada, 'ada')
    await parley.runWhen(first)
    mcp.expire()
    mails()
    expect(await parley.runWhen(await runOf(ada, space.id))).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada', 'ada'])
    mcp.expire('all')
    parley.models.script(
      steps([{ toolCall: 'mail__send', input: {} }], [{ toolCall: 'mail__send', input: {} }], [{ text: 'Sent.' }]),
    )
    const last = await runOf(ada, space.id)
    await connect(ada, 'ada')
    expect(await parley.runWhen(last)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada', 'ada', 'ada'])
    const outputs = (await parley.app.domain.toolCalls.ofRuns([last])).get(last)
    expect(outputs?.[0]?.output).toMatchObject({ error: { code: 'NOT_CONNECTED' } })

    const { db } = parley.app.platform
    const gone = await parley.human('Gone')
    await db.prisma.mcpPersonAuthorization.updateMany({ where: { agentId: agent.id }, data: { humanId: gone.id } })
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: gone.id, messages: false })
    expect(await db.prisma.mcpPersonAuthorization.count({ where: { agentId: agent.id } })).toBe(0)
  })

  test('a call continues if the process died after it had stored the tokens', async () => {
    const { space } = await roomOf([ada])
    mails()
    const runId = await runOf(ada, space.id)
    const { authorization } = await connecting(ada)
    const { location, cookie } = await begin(ada, authorization.url)
    const http = createGuardedHttp({ allowPrivate: true })
    const oauth = createMcpOAuth(parley.app.platform, { http })
    const secret = /; [^=]*=(.*)$/.exec(cookie)?.[1] ?? ''
    const returned = await oauth.finish(mcp.consent(location, 'ada').searchParams, () => secret)
    expect(returned).toMatchObject({ isAuthorized: true })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada'])
    await http.close()
  })

  test('a person is asked to connect again if the server does not accept refreshed tokens either', async () => {
    const { space } = await roomOf([ada])
    mails()
    const first = await runOf(ada, space.id)
    await connect(ada, 'ada')
    await parley.runWhen(first)
    mcp.expire()
    mcp.afterRefresh = () => mcp.expire()
    parley.models.script(
      steps([{ toolCall: 'mail__send', input: {} }], [{ toolCall: 'mail__send', input: {} }], [{ text: 'Sent.' }]),
    )
    const last = await runOf(ada, space.id)
    await connect(ada, 'ada')
    expect(await parley.runWhen(last)).toMatchObject({ status: 'COMPLETED' })
    expect(mcp.calledBy()).toEqual(['ada', 'ada'])
  })

  test('the call of a think cycle is made after the cycle, once the person has connected', async () => {
    const { space, agent } = await roomOf([ada], { agent: { mind: 'PERSISTENT' } })
    mails()
    await parley.send(ada, space.id, 'Send it')
    await connect(ada, 'ada')
    await until('the mail was sent', async () => mcp.calledBy().length === 1)
    await until('the agent has the result', async () => {
      const where = { agentId: agent.id }
      return (await parley.app.platform.db.prisma.inboxEvent.count({ where })) >= 2
    })
    expect(mcp.calledBy()).toEqual(['ada'])
  })

  test.each(['PERSON', 'SERVER'] as const)('only one of two processes refreshes a token (%s)', async (oauth) => {
    const { space, agent } = await roomOf([ada], { mcp: { oauth } })
    mails()
    const first = await runOf(ada, space.id)
    if (oauth === 'PERSON') await connect(ada, 'ada')
    await parley.runWhen(first)
    mcp.expire()
    mcp.refreshes = []
    const http = createGuardedHttp({ allowPrivate: true })
    let waiting = () => {}
    let seen = 0
    const both = new Promise<void>((resolve) => (waiting = resolve))
    // The refresh is answered only when the other process has seen that its token is no longer accepted.
    mcp.beforeRefresh = () => both
    const key = { agentId: agent.id, name: 'mail', url: mcp.url, ...(oauth === 'PERSON' ? { humanId: ada.id } : {}) }
    const lists = [1, 2].map(async () => {
      const provider = createMcpOAuth(parley.app.platform, { http }).providerFor(key)
      let looks = 0
      const authProvider = {
        ...provider,
        async tokens() {
          const tokens = await provider.tokens()
          // Each process reads its tokens for the request, and again before the refresh.
          if (++looks === 2) seen += 1
          if (seen === 2) waiting()
          return tokens
        },
      }
      const connection = createMcpConnection({ url: mcp.url, headers: {}, authProvider }, http)
      const tools = await connection.list(20_000)
      await connection.disconnect()
      return tools.map(({ name }) => name)
    })
    expect(await Promise.all(lists)).toEqual([['send'], ['send']])
    expect(mcp.refreshes).toHaveLength(1)
    await http.close()
  })
})

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BookedService, openService, refund, refundTool } from '../support/decisions.ts'
import { isNightly, sampleOf } from '../support/effort.ts'
import { createFrailty, PASSES } from '../support/frail.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, promptOf, type Read, type Stage } from '../support/stage.ts'
import { changesOf, type Rows, readRows } from '../support/table-changes.ts'
import { until } from '../support/until.ts'

// A flow changes everything or nothing: a process dies after one of the statements of a mutation, another process does
// what is left, and the rows differ from those before in nothing, or exactly as after an undisturbed mutation. In the
// first case the mutation succeeds when it is repeated. The short form tries two statements of each flow, one of them a
// COMMIT.

const SETTINGS = {
  PARLEY_RATE_REQUESTS: '0',
  PARLEY_RATE_MESSAGES: '0',
  PARLEY_MAX_NEW_SPACES_PER_DAY: '0',
  PARLEY_LOG_LEVEL: 'silent',
  PARLEY_DATABASE_CONNECTIONS: '5',
}

type Member = Person & { token: string }
/** People, two agents, and a space with messages, all new. */
interface World {
  ada: Member
  bob: Member
  /** The first agent is woken by each message. */
  agents: [Named, Named]
  space: Named
  /** A message of Ada with a reply by the first agent. */
  message: Read
  reply: Read
  person(name: string): Promise<Member>
}

interface Act {
  by: Member | 'admin'
  mutation: string
  input: object
}

interface Flow {
  name: string
  prepare(world: World, stage: Stage): Act | Promise<Act>
}

const ERRORS = '__typename ... on Error { message }'
const operationOf = (mutation: string) => {
  const type = `${mutation[0]?.toUpperCase()}${mutation.slice(1)}`
  return `mutation ($input: ${type}Input!) { ${mutation}(input: $input) { ${ERRORS} } }`
}

/** A call that waits for Ada's and Bob's approval. */
async function waitingCall({ ada, bob, space }: World, stage: Stage): Promise<string> {
  await stage.say(ada, space, 'Refund 7')
  const call = await until('a call waits', async () => {
    const { pendingToolCalls } = await stage.ask(bob.client, '{ viewer { pendingToolCalls { id } } }')
    return pendingToolCalls[0]
  })
  return call.id
}

const proposal = (toolCallId: string) => ({ toolCallId, expiresInSeconds: 3600, maxCalls: 3, approveCall: true })

async function proposedGrant(world: World, stage: Stage): Promise<string> {
  const toolCallId = await waitingCall(world, stage)
  const { standingGrant } = await stage.ask(
    world.ada.client,
    `mutation ($input: ProposeStandingGrantInput!) { proposeStandingGrant(input: $input) {
      ... on ProposeStandingGrantPayload { standingGrant { id } } } }`,
    { input: proposal(toolCallId) },
  )
  return standingGrant.id
}

const FLOWS: Flow[] = [
  {
    name: 'sendMessage to two agents',
    prepare: ({ ada, space }) => ({ by: ada, mutation: 'sendMessage', input: { spaceId: space.id, text: 'Hello' } }),
  },
  {
    name: 'sendMessage to a person, in a thread',
    prepare: ({ ada, bob, space, message }) => ({
      by: ada,
      mutation: 'sendMessage',
      input: { spaceId: space.id, text: 'Bob?', replyTo: message.id, mentionedIds: [bob.id] },
    }),
  },
  {
    name: 'editMessage with its runs again',
    prepare: ({ ada, message }) => ({
      by: ada,
      mutation: 'editMessage',
      input: { messageId: message.id, text: 'Changed', retryRuns: true },
    }),
  },
  {
    name: 'deleteMessage',
    prepare: ({ ada, message }) => ({ by: ada, mutation: 'deleteMessage', input: { messageId: message.id } }),
  },
  {
    name: 'react',
    prepare: ({ bob, message }) => ({ by: bob, mutation: 'react', input: { messageId: message.id, emoji: '👍' } }),
  },
  {
    name: 'createSpace',
    prepare: ({ ada, bob, agents }) => ({
      by: ada,
      mutation: 'createSpace',
      input: { name: 'New', memberIds: [bob.id, agents[0].id] },
    }),
  },
  {
    name: 'updateSpace',
    prepare: ({ ada, space }) => ({
      by: ada,
      mutation: 'updateSpace',
      input: { id: space.id, name: 'Renamed', confidential: true },
    }),
  },
  {
    name: 'addMember',
    prepare: async ({ ada, space }, stage) => ({
      by: ada,
      mutation: 'addMember',
      input: { spaceId: space.id, entityId: (await stage.bot('Newcomer')).id },
    }),
  },
  {
    name: 'removeMember, an agent',
    prepare: ({ ada, space, agents }) => ({
      by: ada,
      mutation: 'removeMember',
      input: { spaceId: space.id, entityId: agents[0].id },
    }),
  },
  {
    name: 'removeMember, an approver of a waiting call',
    async prepare(world, stage) {
      await waitingCall(world, stage)
      return { by: world.bob, mutation: 'removeMember', input: { spaceId: world.space.id, entityId: world.bob.id } }
    },
  },
  {
    name: 'joinSpace by a link',
    async prepare({ ada, space, person }, stage) {
      const { joinLink } = await stage.ask(
        ada.client,
        `mutation ($input: CreateJoinLinkInput!) { createJoinLink(input: $input) {
          ... on CreateJoinLinkPayload { joinLink { url } } } }`,
        { input: { spaceId: space.id, maxUses: 2 } },
      )
      const code = new URL(joinLink.url).pathname.split('/').at(-1)
      return { by: await person('Eve'), mutation: 'joinSpace', input: { code } }
    },
  },
  {
    name: 'createInvitation',
    prepare: ({ bob }) => ({ by: 'admin', mutation: 'createInvitation', input: { humanId: bob.id } }),
  },
  {
    name: 'forkSpace',
    prepare: ({ ada, space }) => ({ by: ada, mutation: 'forkSpace', input: { spaceId: space.id, name: 'Copy' } }),
  },
  {
    name: 'rerunStep',
    prepare: ({ reply }) => ({ by: 'admin', mutation: 'rerunStep', input: { runId: reply.run.id, step: 0 } }),
  },
  {
    name: 'deleteSpace',
    prepare: ({ space }) => ({ by: 'admin', mutation: 'deleteSpace', input: { id: space.id } }),
  },
  {
    name: 'deleteAgent',
    prepare: ({ agents }) => ({ by: 'admin', mutation: 'deleteAgent', input: { id: agents[0].id } }),
  },
  {
    name: 'eraseHuman',
    prepare: ({ bob }) => ({ by: 'admin', mutation: 'eraseHuman', input: { id: bob.id, messages: true } }),
  },
  {
    name: 'forgetSpace',
    prepare: ({ agents, space }) => ({
      by: 'admin',
      mutation: 'forgetSpace',
      input: { agentId: agents[0].id, spaceId: space.id },
    }),
  },
  {
    name: 'triggerAgent',
    prepare: ({ agents }) => ({
      by: 'admin',
      mutation: 'triggerAgent',
      input: { agentId: agents[1].id, payload: { order: 7 }, serviceName: 'shop' },
    }),
  },
  {
    name: 'retryRun',
    async prepare({ agents, ada, space }, stage) {
      await stage.say(ada, space, 'Fail, please')
      const run = await until('a run has failed', async () =>
        (await stage.runsOf(agents[0])).find(({ status }) => status === 'FAILED'),
      )
      return { by: ada, mutation: 'retryRun', input: { runId: run.id } }
    },
  },
  {
    name: 'decideToolCall, the last approval',
    async prepare(world, stage) {
      const toolCallId = await waitingCall(world, stage)
      await stage.ask(world.bob.client, operationOf('decideToolCall'), { input: { toolCallId, approve: true } })
      return { by: world.ada, mutation: 'decideToolCall', input: { toolCallId, approve: true } }
    },
  },
  {
    name: 'decideToolCall, a denial',
    prepare: async (world, stage) => ({
      by: world.ada,
      mutation: 'decideToolCall',
      input: { toolCallId: await waitingCall(world, stage), approve: false, reason: 'No.' },
    }),
  },
  {
    name: 'proposeStandingGrant',
    prepare: async (world, stage) => ({
      by: world.ada,
      mutation: 'proposeStandingGrant',
      input: proposal(await waitingCall(world, stage)),
    }),
  },
  {
    name: 'decideStandingGrant',
    prepare: async (world, stage) => ({
      by: world.bob,
      mutation: 'decideStandingGrant',
      input: { id: await proposedGrant(world, stage), approve: true },
    }),
  },
  {
    name: 'revokeStandingGrant',
    prepare: async (world, stage) => ({
      by: world.bob,
      mutation: 'revokeStandingGrant',
      input: { id: await proposedGrant(world, stage) },
    }),
  },
  {
    name: 'createPlan',
    prepare: ({ agents }) => ({
      by: 'admin',
      mutation: 'createPlan',
      input: { agentId: agents[0].id, name: 'later', instruction: 'Wait.', schedule: { afterSeconds: 86_400 } },
    }),
  },
  {
    name: 'updateAgent',
    prepare: ({ agents }) => ({
      by: 'admin',
      mutation: 'updateAgent',
      input: { id: agents[0].id, instructions: 'Be brief.' },
    }),
  },
]

describe.skipIf(!hasPostgres)('a process that dies after a statement of', () => {
  let parley: TestServer
  let stage: Stage
  let service: BookedService

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres', isFresh: true, settings: SETTINGS })
    stage = await openStage(parley)
    parley.models.script((request) => {
      const trigger = promptOf(request).split(/RECENT/)[0] ?? ''
      if (trigger.includes('Fail, please')) return [{ error: 'No.', status: 400 }]
      if (request.step > 0) return [{ text: 'Done.' }]
      if (trigger.includes('Greet')) return [{ toolCall: 'send_message', input: { text: 'Hello.' } }]
      return trigger.includes('Refund') ? [refund(7)] : [{ text: 'Nothing to do.' }]
    })
    service = await openService()
  })
  afterAll(async () => {
    await parley?.close()
    await service?.close()
  })

  test.each(FLOWS)('$name leaves everything or nothing, and nothing stuck', { timeout: 1_200_000 }, async (flow) => {
    const { changes, statements } = await perform(flow)
    expect(changes).not.toEqual([])
    // Chance differences would hide what a death left behind.
    expect((await perform(flow)).changes).toEqual(changes)
    for (const n of pointsIn(statements)) {
      const point = `after statement ${n} of ${statements.length}: ${statements[n - 1]?.replace(/\s+/g, ' ').slice(0, 120)}`
      expect({ point, changes: (await perform(flow, n)).changes }).toEqual({ point, changes })
    }
  })

  /** Performs the mutation in a new world and a new process, which dies after its n-th statement; repeats it if it had no effect. */
  async function perform(flow: Flow, n?: number): Promise<{ statements: string[]; changes: string[] }> {
    const act = await flow.prepare(await createWorld(), stage)
    const token = act.by === 'admin' ? await parley.tokenOf(parley.admin) : act.by.token
    const before = await rowsAtRest()
    const frailty = createFrailty()
    const frail = await startTestServer({
      stack: 'postgres',
      beside: parley,
      worker: false,
      settings: { ...SETTINGS, ...frailty.mark(parley.stores.settings) },
    })
    frailty.watch((statement) => (statement.n === n ? { type: 'dies' } : PASSES))
    const isAnswered = await Promise.race([
      frailty.death.then(() => false),
      request(frail.origin, token, act).then(() => true),
    ])
    // Work after the response counts too.
    if (isAnswered) await Promise.race([frailty.death, rowsAtRest()])
    const statements = frailty.statements.map(({ text }) => text)
    // The requests of a dead process never end.
    if (frailty.isDead()) void frail.close().catch(() => {})
    else await frail.close()
    await until('its connections have ended', async () => (await connectionsOf(frailty.name)) === 0)
    let changes = changesOf(before, await rowsAtRest())
    if (changes.length === 0) {
      await request(parley.origin, token, act)
      changes = changesOf(before, await rowsAtRest())
    }
    return { statements, changes }
  }

  async function request(origin: string, token: string, { mutation, input }: Act): Promise<void> {
    const client = createParleyClient({ origin, token })
    const result = await stage.ask(client, operationOf(mutation), { input })
    expect(result).toEqual({ __typename: expect.stringMatching(/Payload$/) })
    await client.close()
  }

  async function connectionsOf(name: string): Promise<number> {
    const [row] = await parley.app.platform.db.prisma.$queryRaw<{ count: number }[]>`
      SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = ${name}`
    return row?.count ?? 0
  }

  /** The rows once nothing is left to do: no run, no job, no event of an inbox, and no change since the last reading. */
  async function rowsAtRest(): Promise<Rows> {
    const { db } = parley.app.platform
    let last: Rows | null = null
    return until('nothing is left to do', async () => {
      const [work] = await db.prisma.$queryRaw<{ isLeft: boolean }[]>`
        SELECT EXISTS (SELECT 1 FROM "Run" WHERE "finishedAt" IS NULL AND status <> 'WAITING_TOOL')
          OR EXISTS (SELECT 1 FROM "InboxEvent" WHERE "doneAt" IS NULL)
          OR EXISTS (SELECT 1 FROM pgboss.job WHERE state IN ('active', 'retry')
            OR (state = 'created' AND start_after <= now())) AS "isLeft"`
      if (work?.isLeft !== false) return false
      const rows = await readRows(db)
      const isSame = last !== null && changesOf(last, rows).length === 0
      last = rows
      return isSame && rows
    })
  }

  async function createWorld(): Promise<World> {
    const person = async (name: string) => {
      const viewer = await parley.human(name)
      const token = await parley.tokenOf(viewer)
      return { id: viewer.id, name, token, client: await parley.clientOf(viewer) }
    }
    const [ada, bob] = [await person('Ada'), await person('Bob')]
    const tools = [refundTool(service, { quorum: 2, approverIds: [ada.id, bob.id] })]
    const agents: World['agents'] = [
      await stage.bot('Cara', { toolset: 'ACTIVE_SPACE', tools }),
      await stage.bot('Dan', { toolset: 'ACTIVE_SPACE', mind: 'STATELESS' }),
    ]
    const space = await stage.space('Desk', [ada, bob, ...agents], { routing: 'ADMIN', adminAgentId: agents[0].id })
    await stage.say(ada, space, 'Greet')
    const [message, reply] = await until('Cara has replied', async () => {
      const messages = await stage.messagesIn(space)
      return messages.length === 2 && messages
    })
    return { ada, bob, agents, space, message, reply, person }
  }
})

/** All statements in the long form, else one of the first and one of the last third, where a commit is. */
function pointsIn(statements: readonly string[]): number[] {
  const all = statements.map((_, index) => index + 1)
  if (isNightly) return all
  const commits = all.filter((n) => /^COMMIT/i.test(statements[n - 1] ?? ''))
  return [...new Set([...sampleOf(all, 1), ...sampleOf(commits, 1)])]
}

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Run } from '../../src/generated/prisma/client.ts'
import { EXECUTE_CALL } from '../../src/jobs/queues.ts'
import { startApplication, type TestApplication } from './application.ts'
import { type Remains, remainsOf } from './broken-run-remains.ts'
import { createFrailty, type Fate, type Frailty, type Statement } from './frail.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { sayIn } from './space-tools.ts'
import { inboxIn, spaceIn } from './thinking.ts'
import { until } from './until.ts'

/** A run of three steps that uses every kind of write: it posts, changes the agent's memory, and calls a service. */
export interface Play {
  name: string
  mind: 'STATELESS' | 'PERSISTENT'
  toolset: 'ACTIVE_SPACE' | 'SPACE_TOOLS'
  /** The call of the service needs two approvals, one of them after an escalation: see `decideNext`. */
  asksFirst?: boolean
  steps(request: ModelRequest, spaceId: string): ModelAction[][]
}

/** Slow enough for the text to start to show before the model ends. */
const slowly = (action: ModelAction): ModelAction => ({ ...action, delayMs: 4 })
const say = (text: string) => slowly({ toolCall: 'send_message', input: { text } })
const sayThere = (spaceId: string, text: string) => slowly(sayIn(spaceId, text))
const goals = { goals: [{ description: 'Ship it.' }] }
const book: ModelAction = { toolCall: 'book', input: { day: 'Monday' } }

/** A reply to the message that triggered the run. Its `replyTo` is known only after its text. */
const answer = (request: ModelRequest, text: string) => {
  const prompt = request.messages.find(({ role }) => role === 'user')?.text ?? ''
  const [replyTo] = /msg_\w+/.exec(prompt) ?? ['']
  return slowly({ toolCall: 'send_message', input: { text, replyTo } })
}

export const PLAYS: Play[] = [
  {
    name: 'messages in its active space',
    mind: 'STATELESS',
    toolset: 'ACTIVE_SPACE',
    steps: () => [
      [say('The first.')],
      [{ toolCall: 'set_goals', input: goals }, book],
      [say('The second.'), say('The third.')],
    ],
  },
  {
    name: 'a message of several parts',
    mind: 'STATELESS',
    toolset: 'SPACE_TOOLS',
    steps: (_, spaceId) => [
      [sayThere(spaceId, 'The first.')],
      [{ toolCall: 'setGoals', input: goals }, book],
      [sayThere(spaceId, 'The second.'), sayThere(spaceId, 'The third.')],
    ],
  },
  {
    name: 'replies that begin a thread',
    mind: 'STATELESS',
    toolset: 'ACTIVE_SPACE',
    steps: (request) => [
      [answer(request, 'The first.')],
      [{ toolCall: 'set_goals', input: goals }, book],
      [say('The second.'), answer(request, 'The third.')],
    ],
  },
  {
    name: 'what people approve first',
    mind: 'STATELESS',
    toolset: 'ACTIVE_SPACE',
    asksFirst: true,
    steps: () => [
      [say('The first.')],
      [book, { toolCall: 'set_goals', input: goals }],
      [say('The second.'), say('The third.')],
    ],
  },
  {
    name: 'a think cycle',
    mind: 'PERSISTENT',
    toolset: 'ACTIVE_SPACE',
    steps: (request) => [
      [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }, say('The first.')],
      [{ toolCall: 'set_goals', input: goals }, book],
      [say('The second.'), say('The third.')],
    ],
  },
  {
    name: 'a think cycle, with what people approve after it',
    mind: 'PERSISTENT',
    toolset: 'ACTIVE_SPACE',
    asksFirst: true,
    steps: (request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? []
        : [
            [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }, say('The first.')],
            [book, { toolCall: 'set_goals', input: goals }],
            [say('The second.'), say('The third.')],
          ],
  },
]

/**
 * The steps of the requests in an uninterrupted run. A persistent agent gets the results of calls that people approved in a
 * separate cycle.
 */
export function stepsOf({ asksFirst, mind }: Play): number[] {
  return [0, 1, 2, 3, ...(asksFirst === true && mind === 'PERSISTENT' ? [0] : [])]
}

/** A deployment that performs test runs one after the other. Each has a new worker, which can break. */
export interface Theatre {
  parley: TestApplication
  /**
   * Starts a test run on a new worker. `fateOf` decides the outcome of each SQL statement that the worker sends from then on. The statements of people's decisions do too,
   * if that process handles them.
   */
  begin(play: Play, fateOf: (statement: Statement) => Fate, decidesThere?: 'decides-there'): Promise<Performance>
  close(): Promise<void>
}

export interface Performance {
  frailty: Frailty
  /** The model requests of living workers, in order. */
  requests: ModelRequest[]
  /** The number of unfinished runs. */
  openRequests(): number
  /** The Idempotency-Keys of the calls to the service. */
  bookings: string[]
  /** Returns the run once it exists. The run of a think cycle is created when the cycle begins. */
  run(): Promise<Run | null>
  /** Returns whether nothing is left to do. */
  isOver(): Promise<boolean>
  /** Resolves when the run has ended, or its worker is dead. */
  overOrDead(): Promise<void>
  /** Lets another worker finish the runs of the dead one, without waiting for its leases to end. */
  takeOver(): Promise<void>
  /** Stops the worker, unless it is dead. */
  dismiss(): Promise<void>
  remains(): Promise<Remains>
  /** Hides the leftovers of this test run from the worker of the next one. */
  forget(): Promise<void>
}

/** Nine applications at a time, and others, share a server that may allow only a hundred connections. */
const QUIET_AND_SMALL = { PARLEY_LOG_LEVEL: 'silent', PARLEY_DATABASE_CONNECTIONS: '5' }
const FRAIL_KEY = 'sk-frail'

export async function openTheatre(): Promise<Theatre> {
  const parley = await startApplication({ stack: 'postgres', worker: false, settings: QUIET_AND_SMALL })
  const human = await parley.human('Husam')
  const asked = { first: await parley.human('Alice'), last: human, never: await parley.human('Bob') }
  const service = await openService()

  async function begin(
    play: Play,
    fateOf: (statement: Statement) => Fate,
    decidesThere?: string,
  ): Promise<Performance> {
    const frailty = createFrailty()
    const description = { name: 'book', description: 'Books.', inputSchema: { type: 'object' } }
    const approval = play.asksFirst === true ? { approval: approvalOf(asked) } : {}
    const tools = [{ ...description, execution: 'HTTP' as const, url: service.url, ...approval }]
    const agent = await parley.agent('Ada', { mind: play.mind, toolset: play.toolset, tools })
    const space = await parley.space(human, [agent.id])
    const requests: ModelRequest[] = []
    let open = 0
    service.calls.length = 0
    parley.models.reset()
    parley.models.script((request) => {
      if (frailty.isDead() && request.headers.authorization === `Bearer ${FRAIL_KEY}`) return [{ hang: true }]
      requests.push(request)
      open += 1
      void request.ended.then(() => {
        open -= 1
      })
      return play.steps(request, space.id)[request.step] ?? [{ text: 'All is said.' }]
    })
    const start = (settings: Record<string, string>) =>
      startApplication({ stack: 'postgres', beside: parley, settings: { ...QUIET_AND_SMALL, ...settings } })
    const frail = await start({ ...frailty.mark(parley.stores.settings), OPENAI_API_KEY: FRAIL_KEY })
    frailty.watch(fateOf)
    await parley.send(human, space.id, 'Book Monday')
    const isOver = async () => {
      const decider = decidesThere === undefined || frailty.isDead() ? parley : frail
      const deciding = play.asksFirst === true && decideNext(parley, decider, { play, agentId: agent.id, asked })
      await Promise.race([deciding, ...(decider === frail ? [frailty.death] : [])])
      return hasEnded(parley, agent.id)
    }
    return {
      frailty,
      requests,
      openRequests: () => open,
      bookings: service.calls,
      run: () => parley.app.platform.db.prisma.run.findFirst({ where: { agentId: agent.id }, orderBy: { id: 'desc' } }),
      isOver,
      async overOrDead() {
        await until('the play has ended, or its worker is dead', async () => frailty.isDead() || (await isOver()))
      },
      async takeOver() {
        const diedBy = await timeOf(parley)
        const sound = await start({ OPENAI_API_KEY: 'sk-sound' })
        await until('another worker has ended the run', async () => {
          await lapseLeases(parley, diedBy)
          return isOver()
        })
        await sound.close()
      },
      async dismiss() {
        await Promise.race([frailty.death, frailty.isDead() || frail.close()])
      },
      remains: () => remainsOf(parley, space.id, agent.id),
      async forget() {
        await parley.app.platform.db.prisma.inboxEvent.updateMany({
          where: { agentId: agent.id, doneAt: null },
          data: { doneAt: new Date() },
        })
      },
    }
  }

  return {
    parley,
    begin,
    async close() {
      await parley.close()
      await service.close()
    },
  }
}

/** The service of an HTTP tool, which records the key of each call. */
async function openService() {
  const calls: string[] = []
  const server = createServer((request, response) => {
    calls.push(String(request.headers['idempotency-key']))
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"booked":true}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { calls, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close }
}

/** The approvers: two at first, and the last one once the call is escalated. */
interface Asked {
  first: HumanViewer
  never: HumanViewer
  last: HumanViewer
}

const approvalOf = ({ first, never, last }: Asked) => ({
  quorum: 2,
  approverIds: [first.id, never.id],
  expiresInSeconds: 600,
  escalateAfterSeconds: 500,
  escalateToIds: [last.id],
})

/**
 * Makes the next decision on the waiting call: the first approver approves, then the call is escalated, then the last approver
 * approves. For a think cycle, decides only after the cycle has ended, so that the prompt is the same each time.
 */
async function decideNext(
  { app }: TestApplication,
  decider: TestApplication,
  { play, agentId, asked }: { play: Play; agentId: string; asked: Asked },
): Promise<void> {
  const { prisma } = app.platform.db
  const call = await prisma.toolCall.findFirst({ where: { agentId, approvalState: 'PENDING', status: 'WAITING' } })
  const run = call && (await prisma.run.findUnique({ where: { id: call.runId } }))
  if (call === null || (play.mind === 'PERSISTENT' && run?.finishedAt === null)) return
  const { id: toolCallId, escalatedAt } = call
  const hasBegun = (await prisma.decision.count({ where: { toolCallId } })) > 0
  if (hasBegun && escalatedAt === null) {
    await prisma.$executeRaw`UPDATE "ToolCall" SET "escalatesAt" = now() WHERE id = ${toolCallId} AND "escalatesAt" > now()`
    return
  }
  // Another poll or a stop was faster.
  const unlessConflict = (error: { code?: string }) => (error.code === 'CONFLICT' ? null : Promise.reject(error))
  const human = hasBegun ? asked.last : asked.first
  await decider.app.domain.control.decideToolCall(human, { toolCallId, approve: true }).catch(unlessConflict)
}

/** Use one statement, because between two a call can become an event, and an event a run. */
async function hasEnded({ app }: TestApplication, agentId: string): Promise<boolean> {
  const [found] = await app.platform.db.prisma.$queryRaw<{ isOver: boolean }[]>`
    SELECT EXISTS (SELECT 1 FROM "Run" WHERE "agentId" = ${agentId})
      AND NOT EXISTS (SELECT 1 FROM "Run" WHERE "agentId" = ${agentId} AND "finishedAt" IS NULL)
      AND NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE "agentId" = ${agentId} AND (status = 'WAITING' OR "carryAt" IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM "InboxEvent" WHERE "agentId" = ${agentId} AND "doneAt" IS NULL)
      AND NOT EXISTS (SELECT 1 FROM "Message" WHERE "senderId" = ${agentId} AND status = 'STREAMING') AS "isOver"`
  return found?.isOver === true
}

/** Advances the time past the lease of a silent worker. */
export async function lapseLeases({ app }: TestApplication, diedBy: Date): Promise<void> {
  await app.platform.db.prisma.$executeRaw`
    UPDATE "Run" SET "leaseUntil" = now() WHERE status = 'RUNNING' AND "leaseUntil" > now()`
  // Does what pg-boss does when it misses the heartbeats of a process, without the delay. A living process keeps its jobs.
  await app.platform.db.prisma.$executeRaw`
    UPDATE pgboss.job SET state = 'retry', retry_count = retry_count + 1, start_after = now()
    WHERE name = ${EXECUTE_CALL.name} AND state = 'active' AND started_on <= ${diedBy}`
}

async function timeOf({ app }: TestApplication): Promise<Date> {
  const [row] = await app.platform.db.prisma.$queryRaw<{ now: Date }[]>`SELECT clock_timestamp() AS now`
  return row?.now ?? new Date()
}

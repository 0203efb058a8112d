import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Run } from '../../src/generated/prisma/client.ts'
import { startApplication, type TestApplication } from './application.ts'
import { createFrailty, type Fate, type Frailty, type Statement } from './frail.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { sayIn } from './space-tools.ts'
import { spaceIn } from './thinking.ts'
import { until } from './until.ts'

/** A run of three steps that writes in every way in which a run writes: speaks, changes what the agent knows, calls a service. */
export interface Play {
  name: string
  mind: 'STATELESS' | 'PERSISTENT'
  toolset: 'ACTIVE_SPACE' | 'SPACE_TOOLS'
  steps(request: ModelRequest, spaceId: string): ModelAction[][]
}

/** Slowly enough to begin to show before the model has ended. */
const slowly = (action: ModelAction): ModelAction => ({ ...action, delayMs: 4 })
const say = (text: string) => slowly({ toolCall: 'send_message', input: { text } })
const sayThere = (spaceId: string, text: string) => slowly(sayIn(spaceId, text))
const goals = { goals: [{ description: 'Ship it.' }] }
const book: ModelAction = { toolCall: 'book', input: { day: 'Monday' } }

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
    name: 'a think cycle',
    mind: 'PERSISTENT',
    toolset: 'ACTIVE_SPACE',
    steps: (request) => [
      [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }, say('The first.')],
      [{ toolCall: 'set_goals', input: goals }, book],
      [say('The second.'), say('The third.')],
    ],
  },
]

/** One deployment on which plays are performed one after the other, each by a worker of its own that may break. */
export interface Theatre {
  parley: TestApplication
  /** Begins a play with a worker whose statements from then on meet these fates. */
  begin(play: Play, fateOf: (statement: Statement) => Fate): Promise<Performance>
  close(): Promise<void>
}

export interface Performance {
  frailty: Frailty
  /** What living workers asked the model, in order. */
  requests: ModelRequest[]
  /** How many of them are not over. */
  openRequests(): number
  /** The Idempotency-Keys with which the service was called. */
  bookings: string[]
  /** The run, once there is one: a think cycle's is made when it begins. */
  run(): Promise<Run | null>
  /** Whether nothing of it is left to be done. */
  isOver(): Promise<boolean>
  /** Goes on when it is over, or its worker is dead. */
  overOrDead(): Promise<void>
  /** Another worker ends what the dead one began. Leases do not have to be waited for. */
  takeOver(): Promise<void>
  /** The worker gives up what it does and ends, if it is not dead. */
  dismiss(): Promise<void>
  remains(): Promise<Remains>
  /** What is left of it is nothing to the next play's worker. */
  forget(): Promise<void>
}

const QUIET = { PARLEY_LOG_LEVEL: 'silent' }
const FRAIL_KEY = 'sk-frail'

export async function openTheatre(): Promise<Theatre> {
  const parley = await startApplication({ stack: 'postgres', worker: false, settings: QUIET })
  const human = await parley.human('Husam')
  const service = await openService()

  async function begin(play: Play, fateOf: (statement: Statement) => Fate): Promise<Performance> {
    const frailty = createFrailty()
    const description = { name: 'book', description: 'Books.', inputSchema: { type: 'object' } }
    const tools = [{ ...description, execution: 'HTTP' as const, url: service.url }]
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
      startApplication({ stack: 'postgres', beside: parley, settings: { ...QUIET, ...settings } })
    const frail = await start({ ...frailty.mark(parley.stores.settings), OPENAI_API_KEY: FRAIL_KEY })
    frailty.watch(fateOf)
    await parley.send(human, space.id, 'Book Monday')
    const isOver = () => hasEnded(parley, agent.id)
    return {
      frailty,
      requests,
      openRequests: () => open,
      bookings: service.calls,
      run: () => parley.app.platform.db.prisma.run.findFirst({ where: { agentId: agent.id }, orderBy: { id: 'desc' } }),
      isOver,
      async overOrDead() {
        await until('it is over, or its worker dead', async () => frailty.isDead() || (await isOver()))
      },
      async takeOver() {
        const sound = await start({ OPENAI_API_KEY: 'sk-sound' })
        await until('another worker has ended it', async () => {
          await lapseLeases(parley)
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

/** An HTTP tool's service, which notes with which key it was called. */
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

async function hasEnded({ app }: TestApplication, agentId: string): Promise<boolean> {
  const { prisma } = app.platform.db
  const [runs, events, open] = await Promise.all([
    prisma.run.findMany({ where: { agentId }, select: { finishedAt: true } }),
    prisma.inboxEvent.count({ where: { agentId, doneAt: null } }),
    prisma.message.count({ where: { senderId: agentId, status: 'STREAMING' } }),
  ])
  return runs.length > 0 && runs.every(({ finishedAt }) => finishedAt !== null) && events + open === 0
}

/** As if the time had gone by for which a worker that says nothing more keeps what it has in hand. */
export async function lapseLeases({ app }: TestApplication): Promise<void> {
  await app.platform.db.prisma.$executeRaw`
    UPDATE "Run" SET "leaseUntil" = now() WHERE status = 'RUNNING' AND "leaseUntil" > now()`
}

/** What is left when all is over, without ids and times: the same however often the run was broken off. */
export interface Remains {
  /** From 1 to the space's last, if there is no hole. */
  seqs: number[]
  lastSeq: number
  /** All parts that were shown, in order, without those of which another began anew. */
  said: unknown[]
  /** Everything else. */
  rest: Record<string, unknown>
}

async function remainsOf({ app }: TestApplication, spaceId: string, agentId: string): Promise<Remains> {
  const { prisma } = app.platform.db
  const where = { agentId }
  const [space, messages, outcomes, runs, steps, calls, goals, inbox, cycles] = await Promise.all([
    prisma.space.findUniqueOrThrow({ where: { id: spaceId } }),
    prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
    prisma.outcome.findMany({ where }),
    prisma.run.findMany({ where, orderBy: { id: 'asc' } }),
    prisma.step.findMany({ where: { run: where }, orderBy: { index: 'asc' } }),
    prisma.toolCall.findMany({ where, orderBy: [{ stepIndex: 'asc' }, { id: 'asc' }] }),
    prisma.goal.findMany({ where }),
    prisma.inboxEvent.findMany({ where }),
    prisma.cycle.findMany({ where, orderBy: { index: 'asc' } }),
  ])
  return {
    seqs: messages.map(({ seq }) => seq),
    lastSeq: space.lastSeq,
    said: saidIn(messages),
    rest: anonymous({
      outcomes: outcomes.map(({ kind, reason }) => ({ kind, reason })),
      runs: runs.map(({ status, summary, error, stepCount }) => ({ status, summary, error, stepCount })),
      steps: steps.map(({ index, finishReason, assistant }) => ({ index, finishReason, assistant })),
      calls: calls.map(({ stepIndex, toolName, status, input, output, error }) => ({
        ...{ stepIndex, toolName, status },
        ...{ input, output, error },
      })),
      goals: goals.map(({ description, status }) => ({ description, status })),
      inbox: inbox.map(({ doneAt }) => doneAt !== null),
      cycles: cycles.map(({ index, messages }) => ({ index, messages })),
    }),
  }
}

/** What was cut off, and then said from its beginning, counts once. */
function saidIn(messages: { status: string; parts: unknown }[]): unknown[] {
  const parts = messages.flatMap(({ status, parts }) =>
    (parts as { text?: string }[]).map((part, index, all) => ({
      text: part.text ?? '',
      isCut: status === 'INTERRUPTED' && index === all.length - 1,
    })),
  )
  return parts.flatMap(({ text, isCut }, index) =>
    isCut && parts[index + 1]?.text.startsWith(text) === true ? [] : [text],
  )
}

/** With ids by their kind, and by what they were named after where one names another; with times left out. */
export function anonymous<T>(value: T): T {
  const seen = new Map<string, number>()
  const text = JSON.stringify(value)
    .replace(/\b([a-z]{3})_[0-9a-z]{20,}/g, '$1#')
    .replace(/\bcall_\w+/g, (id) => {
      if (!seen.has(id)) seen.set(id, seen.size)
      return `call#${seen.get(id)}`
    })
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d\d:\d\d(:\d\d)?\b/g, 'T')
  return JSON.parse(text) as T
}

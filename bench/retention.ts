import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '../src/platform/db.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { keepBriefly } from './support/kept-briefly.ts'
import { modelName, now, startModel } from './support/model.ts'
import { createRoom, type Room, startStack } from './support/stack.ts'
import { say } from './support/watch.ts'

const ROOMS = 20
const OLD = 30_000
const QUICK_OLD = 5_000
const MOST_PAUSE_MS = 50
/** The retention time of new data, long enough to keep everything that the load creates. */
const KEEP_MS = 3_600_000

/**
 * Generates the full load: each room sends the next message as soon as the previous one has a reply. Records the time of each
 * reply.
 */
async function sayAll(rooms: Room[], answered: number[], isOver: () => boolean): Promise<void> {
  await Promise.all(
    rooms.map(async (room) => {
      while (!isOver()) {
        await say(room)
        answered.push(now())
      }
    }),
  )
}

/**
 * Inserts old data into the rooms of the load, so that deletions and the load lock the same rows of spaces. Each message has
 * its outcome, and each run has two steps and a visible call. Every twentieth step is too long to be stored in its row.
 */
async function makeOld({ prisma }: Database, rooms: Room[], count: number): Promise<void> {
  const spaceIds = rooms.map(({ spaceId }) => spaceId)
  const agent = await prisma.agent.findFirstOrThrow({ select: { id: true } })
  await prisma.$executeRaw`
    CREATE TABLE old AS SELECT lpad(to_hex(n), 32, '0') AS id, ${agent.id}::text AS "agentId", now() - interval '9 days' AS at,
      (${spaceIds}::text[])[1 + n % ${ROOMS}::int] AS "spaceId", (n - ${count + 1}::int) / ${ROOMS}::int - 1 AS seq, n
    FROM generate_series(1, ${count}::int) n`
  await prisma.$executeRaw`
    INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", depth, "rootId", "queuedAt", "finishedAt", "claimableAt")
    SELECT 'run_' || id, "agentId", 'COMPLETED', 'SERVICE', 'old', 0, 'msg_' || id, at, at, NULL FROM old`
  await prisma.$executeRaw`
    INSERT INTO "Step" (id, "runId", index, model, "messagesKept", "messagesAdded", "activeTools", assistant, "startedAt")
    SELECT 'stp_' || index || id, 'run_' || id, index, 'model', 0,
      jsonb_build_array((SELECT string_agg(md5(id || index || i), '') FROM generate_series(1, CASE WHEN n % 20 = 0 THEN 500 ELSE 20 END) i)),
      '{}', '{}', at
    FROM old, generate_series(0, 1) index`
  await prisma.$executeRaw`
    INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", status, "messageId", "spaceId")
    SELECT 'tcl_' || id, 'run_' || id, "agentId", 0, 'call', 'send_message', 'DONE', 'msg_' || id, "spaceId" FROM old`
  await prisma.$executeRaw`INSERT INTO "RunSpace" ("runId", "spaceId") SELECT 'run_' || id, "spaceId" FROM old`
  await prisma.$executeRaw`
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt")
    SELECT 'msg_' || id, "spaceId", seq, "agentId", 'COMPLETE', '[{"type":"text","text":"old"}]', 'msg_' || id, 0, at, at FROM old`
  await prisma.$executeRaw`
    INSERT INTO "Outcome" ("messageId", "agentId", kind) SELECT 'msg_' || id, "agentId", 'RUN' FROM old`
  await prisma.$executeRaw`INSERT INTO "RootUsage" ("rootId") SELECT 'msg_' || id FROM old`
  await prisma.$executeRaw`
    UPDATE "Space" s SET "firstSeq" = (SELECT min(seq) FROM old WHERE "spaceId" = s.id) WHERE id = ANY(${spaceIds}::text[])`
  await prisma.$executeRaw`DROP TABLE old`
  await prisma.$executeRaw`ANALYZE`
}

async function oldIn({ prisma }: Database): Promise<number> {
  const [messages, runs] = await Promise.all([
    prisma.message.count({ where: { seq: { lt: 0 } } }),
    prisma.run.count({ where: { triggerSummary: 'old' } }),
  ])
  return messages + runs
}

interface Stretch {
  from: number
  until: number
}

/** Returns, for each period, the number of replies and the longest times without a reply. */
function during(stretches: Stretch[], answered: number[]) {
  const sorted = answered.toSorted((a, b) => a - b)
  let count = 0
  const pauses: number[] = []
  for (const { from, until } of stretches) {
    const within = sorted.filter((at) => at >= from && at < until)
    count += within.length
    pauses.push(...within.slice(1).map((at, index) => at - (within[index] ?? at)))
  }
  const seconds = stretches.reduce((sum, { from, until }) => sum + (until - from), 0) / 1000
  return { perSecond: count / seconds, pauses, longest: Math.max(...pauses), seconds }
}

interface Measured {
  answered: number[]
  alone: Stretch[]
  beside: Stretch[]
  batches: number[]
  old: number
}

function figuresOf({ answered, alone, beside, batches, old }: Measured): Figure[] {
  const [without, besides] = [during(alone, answered), during(beside, answered)]
  const usual = percentile(without.pauses, 0.999)
  return [
    { what: 'messages a second without retention', value: without.perSecond, unit: '/s' },
    { what: 'messages a second beside it', value: besides.perSecond, unit: '/s' },
    { what: 'the longest time without an answer, without retention', value: without.longest, unit: 'ms' },
    {
      what: 'the same beside it',
      value: besides.longest,
      unit: 'ms',
      bound: { atMost: without.longest + MOST_PAUSE_MS },
    },
    { what: 'the time between two answers, p99.9, without', value: usual, unit: 'ms' },
    {
      what: 'the same beside it',
      value: percentile(besides.pauses, 0.999),
      unit: 'ms',
      bound: { atMost: usual + MOST_PAUSE_MS },
    },
    { what: 'a batch, p50', value: percentile(batches, 0.5), unit: 'ms' },
    { what: 'a batch, p99', value: percentile(batches, 0.99), unit: 'ms', bound: { atMost: MOST_PAUSE_MS } },
    { what: 'messages and runs deleted a second', value: (2 * old) / besides.seconds, unit: '/s' },
  ]
}

export const retention: Benchmark = {
  question: `Does deleting ${OLD.toLocaleString('en')} old messages and as many runs, with all their rows, delay messages at the same time, ${ROOMS} concurrently, without a pause?`,
  mostMinutes: 10,
  async run({ quick }) {
    const old = quick ? QUICK_OLD : OLD
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model)
    const rooms = await Promise.all(Array.from({ length: ROOMS }, () => createRoom(stack, modelName(5, 0))))
    const kept = await keepBriefly(stack.databaseUrl ?? '', KEEP_MS)
    await makeOld(kept.db, rooms, old)
    const answered: number[] = []
    const [alone, beside]: [Stretch[], Stretch[]] = [[], []]
    let isDone = false
    const load = sayAll(rooms, answered, () => isDone)
    // Measures with and without retention in turn, for equal times, because a longer period is likely to have a longer maximum.
    while ((await oldIn(kept.db)) > 0) {
      const from = now()
      await kept.sweep()
      const until = now()
      beside.push({ from, until })
      await pause(until - from)
      alone.push({ from: until, until: now() })
    }
    isDone = true
    await load
    await kept.close()
    await Promise.all(rooms.map(({ human }) => human.close()))
    await stack.stop()
    await model.stop()
    return figuresOf({ answered, alone, beside, batches: kept.batches, old })
  },
}

import type { Database } from '../src/platform/db.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { keepBriefly } from './support/kept-briefly.ts'
import { modelName, now, startModel } from './support/model.ts'
import { createRoom, type Room, startStack } from './support/stack.ts'
import { say } from './support/watch.ts'

const ROOMS = 20
const OLD = 50_000
const QUICK_OLD = 10_000
const MOST_PAUSE_MS = 50
const SECONDS = 15
/** What is kept: all that the load makes. */
const KEEP_MS = 3_600_000

/** Full load: in each room the next message as soon as the one before is answered. Answers with when each was. */
async function sayAll(rooms: Room[], isOver: () => boolean): Promise<number[]> {
  const answered: number[] = []
  await Promise.all(
    rooms.map(async (room) => {
      while (!isOver()) {
        await say(room)
        answered.push(now())
      }
    }),
  )
  return answered
}

/** The times in which nobody was answered. */
function pausesIn(answered: number[]): number[] {
  const sorted = answered.toSorted((a, b) => a - b)
  return sorted.slice(1).map((at, index) => at - (sorted[index] ?? at))
}

/** In the rooms that are written to, so that both take the same rows of spaces; of an agent that is there. */
async function makeOld({ prisma }: Database, rooms: Room[], count: number): Promise<void> {
  const spaceIds = rooms.map(({ spaceId }) => spaceId)
  await prisma.$executeRaw`
    INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", depth, "rootId", "queuedAt", "finishedAt", "claimableAt")
    SELECT 'run_' || lpad(to_hex(n), 32, '0'), (SELECT id FROM "Agent" LIMIT 1), 'COMPLETED', 'SERVICE', 'old', 0,
      'msg_' || lpad(to_hex(n), 32, '0'), now() - interval '9 days', now() - interval '9 days', NULL
    FROM generate_series(1, ${count}::int) n`
  await prisma.$executeRaw`
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt")
    SELECT 'msg_' || lpad(to_hex(n), 32, '0'), (${spaceIds}::text[])[1 + n % ${rooms.length}::int], -n,
      (SELECT id FROM "Agent" LIMIT 1), 'COMPLETE', '[{"type":"text","text":"old"}]', 'msg_' || lpad(to_hex(n), 32, '0'), 0, now(),
      now() - interval '9 days'
    FROM generate_series(1, ${count}::int) n`
  await prisma.$executeRaw`ANALYZE`
}

async function oldIn({ prisma }: Database): Promise<number> {
  const [messages, runs] = await Promise.all([
    prisma.message.count({ where: { seq: { lt: 0 } } }),
    prisma.run.count({ where: { triggerSummary: 'old' } }),
  ])
  return messages + runs
}

interface Measured {
  alone: number[]
  beside: number[]
  batches: number[]
  old: number
}

function figuresOf({ alone, beside, batches, old }: Measured): Figure[] {
  const [without, during] = [pausesIn(alone), pausesIn(beside)]
  const worst = Math.max(...without)
  const bound = { atMost: MOST_PAUSE_MS }
  const seconds = (Math.max(...beside) - Math.min(...beside)) / 1000
  return [
    { what: 'messages a second without retention', value: alone.length / SECONDS, unit: '/s' },
    { what: 'messages a second beside it', value: beside.length / seconds, unit: '/s' },
    { what: 'the longest time without an answer, without retention', value: worst, unit: 'ms' },
    {
      what: 'the same beside it',
      value: Math.max(...during),
      unit: 'ms',
      bound: { atMost: worst + MOST_PAUSE_MS },
    },
    { what: 'the time between two answers, p99.9, without', value: percentile(without, 0.999), unit: 'ms' },
    { what: 'the same beside it', value: percentile(during, 0.999), unit: 'ms', bound },
    { what: 'a batch, p50', value: percentile(batches, 0.5), unit: 'ms' },
    { what: 'a batch, p99', value: percentile(batches, 0.99), unit: 'ms', bound },
    { what: 'rows deleted a second', value: (2 * old) / seconds, unit: '/s' },
  ]
}

export const retention: Benchmark = {
  question: `Does deleting ${OLD.toLocaleString('en')} old messages and as many runs hold up who writes at the same time, ${ROOMS} at a time, without a pause?`,
  async run({ quick }) {
    const old = quick ? QUICK_OLD : OLD
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model)
    const rooms = await Promise.all(Array.from({ length: ROOMS }, () => createRoom(stack, modelName(5, 0))))
    const kept = await keepBriefly(stack.databaseUrl ?? '', KEEP_MS)
    await makeOld(kept.db, rooms, old)
    const before = now() + SECONDS * 1000
    const alone = await sayAll(rooms, () => now() > before)
    let isDone = false
    const [beside] = await Promise.all([
      sayAll(rooms, () => isDone),
      (async () => {
        while ((await oldIn(kept.db)) > 0) await kept.sweep()
        isDone = true
      })(),
    ])
    await kept.close()
    await Promise.all(rooms.map(({ human }) => human.close()))
    await stack.stop()
    await model.stop()
    return figuresOf({ alone, beside, batches: kept.batches, old })
  },
}

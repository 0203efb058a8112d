import { AsyncLocalStorage } from 'node:async_hooks'
import { LRUCache } from 'lru-cache'
import { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { type JsonObject, jsonbText } from '../lib/json.ts'
import type { Database, Tx } from './db.ts'

/** What somebody asks for that changes something. */
export interface Deed {
  /** Null for the operator. */
  actorId: string | null
  serviceName: string | null
  action: string
  /** Null for what is yet to be made: then it is what the transaction answers with. */
  targetId: string | null
  /** Never content, never a secret. */
  detail: JsonObject
}

/** The audit log's writer: entries stand or fall with what they tell of. */
export interface Record {
  /** The database, whose transactions write what they are part of. */
  db: Database
  /**
   * Lets `work` do it: the first transaction that it commits writes the entry too. A ForbiddenError, thrown or answered, is an entry
   * of its own; what fails otherwise has changed nothing, and is none. `onlyRefusals`: what is done is on record elsewhere. `deedOf` is
   * asked where an entry is written.
   */
  during<T>(deedOf: () => Deed, work: () => Promise<T>, how: { onlyRefusals: boolean }): Promise<T>
}

/** Entries a minute, in one process, of what one actor was refused by one action: more say nothing new, and cost a row each. */
const MOST_REFUSALS = 60

interface Pending {
  deedOf: () => Deed
  isWritten: boolean
}

export function createRecord(db: Database): Record {
  const pending = new AsyncLocalStorage<Pending>()

  /** How many refusals of one action each actor has had on record in the last minute. */
  const refusals = new LRUCache<string, { count: number }>({ max: 10_000, ttl: 60_000 })

  async function refused(deed: Deed): Promise<void> {
    const key = `${deed.actorId} ${deed.serviceName} ${deed.action}`
    const recent = refusals.get(key) ?? { count: 0 }
    if (recent.count === 0) refusals.set(key, recent)
    recent.count += 1
    if (recent.count <= MOST_REFUSALS) await db.prisma.$executeRaw(entry(deed, { refused: true }))
  }

  return {
    db: {
      ...db,
      async transaction(work) {
        const held = pending.getStore()
        if (held === undefined || held.isWritten) return db.transaction(work)
        const result = await db.transaction(async (tx: Tx) => {
          const made = await work(tx)
          const deed = held.deedOf()
          await tx.$executeRaw(entry({ ...deed, targetId: deed.targetId ?? idOf(made) }, { refused: false }))
          return made
        })
        held.isWritten = true
        return result
      },
    },
    async during(deedOf, work, { onlyRefusals }) {
      const held = { deedOf, isWritten: onlyRefusals }
      try {
        const answer = await (onlyRefusals ? work() : pending.run(held, work))
        const failure = failureOf(answer)
        if (failure === 'FORBIDDEN') await refused(deedOf())
        else if (failure === null && !held.isWritten) await db.prisma.$executeRaw(entry(deedOf(), { refused: false }))
        return answer
      } catch (error) {
        if (error instanceof ForbiddenError) await refused(deedOf())
        throw error
      }
    },
  }
}

/** The code of an expected failure that is the answer; nothing else that is answered has one. It may be a proxy, of no class. */
function failureOf(answer: unknown): unknown {
  return typeof answer === 'object' && answer !== null && 'code' in answer ? answer.code : null
}

/** Of what was made, or of the first thing in it that has one. */
function idOf(made: unknown): string | null {
  if (typeof made !== 'object' || made === null) return null
  const ids = [made, ...Object.values(made)].map((thing) => (thing as { id?: unknown } | null)?.id)
  return (ids.find((id) => typeof id === 'string' && prefixOf(id) !== null) as string | undefined) ?? null
}

/** In the transaction of what somebody did, or was refused, where that is nobody's answer to a mutation. */
export async function noteDeed(tx: Tx, deed: Deed, { refused = false } = {}): Promise<void> {
  await tx.$executeRaw(entry(deed, { refused }))
}

function entry(
  { actorId, serviceName, action, targetId, detail }: Deed,
  { refused }: { refused: boolean },
): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "AuditEntry" (id, "actorId", "serviceName", action, "targetId", detail, refused)
    VALUES (${newId('aud')}, ${actorId}, ${serviceName}, ${action}, ${targetId}, ${jsonbText(detail)}::jsonb, ${refused})`
}

import { AsyncLocalStorage } from 'node:async_hooks'
import { LRUCache } from 'lru-cache'
import { ForbiddenError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Database, Tx } from '../platform/db.ts'
import { type Deed, noteDeed } from '../stores/audit-store.ts'

/** Writes the audit log, in the transaction of the action. */
export interface Record {
  /** The database whose transactions write the entries. */
  db: Database
  /**
   * Executes `work`. The first transaction that `work` commits also writes the entry. If `work` throws or returns a
   * ForbiddenError, writes a separate entry. Other failures change nothing and get no entry. `onlyRefusals` says that
   * success is recorded elsewhere. `deedOf` returns the entry, and is called only if an entry is written.
   */
  during<T>(deedOf: () => Deed, work: () => Promise<T>, how: { onlyRefusals: boolean }): Promise<T>
}

/**
 * The maximum number of entries per minute and process about refusals of the same action for the same actor. Further
 * entries would add no information, and each would cost a row.
 */
const MOST_REFUSALS = 60

interface Pending {
  deedOf: () => Deed
  isWritten: boolean
}

export function createRecord(db: Database): Record {
  const pending = new AsyncLocalStorage<Pending>()

  /** The number of recorded refusals of each actor and action in the last minute. */
  const refusals = new LRUCache<string, { count: number }>({ max: 10_000, ttl: 60_000 })

  async function refused(deed: Deed): Promise<void> {
    const key = `${deed.actorId} ${deed.serviceName} ${deed.action}`
    const recent = refusals.get(key) ?? { count: 0 }
    if (recent.count === 0) refusals.set(key, recent)
    recent.count += 1
    if (recent.count <= MOST_REFUSALS) await noteDeed(db.prisma, deed, { refused: true })
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
          await noteDeed(tx, { ...deed, targetId: deed.targetId ?? idOf(made) })
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
        else if (failure === null && !held.isWritten) await noteDeed(db.prisma, deedOf())
        return answer
      } catch (error) {
        if (error instanceof ForbiddenError) await refused(deedOf())
        throw error
      }
    },
  }
}

/**
 * Returns the code of an expected failure that `work` returned. Other values have no code. The class is not checked,
 * because the value can be a proxy.
 */
function failureOf(answer: unknown): unknown {
  return typeof answer === 'object' && answer !== null && 'code' in answer ? answer.code : null
}

/** Returns the id of the created object; if it has no id, the id of the first object in it that has one. */
function idOf(made: unknown): string | null {
  if (typeof made !== 'object' || made === null) return null
  const ids = [made, ...Object.values(made)].map((thing) => (thing as { id?: unknown } | null)?.id)
  return (ids.find((id) => typeof id === 'string' && prefixOf(id) !== null) as string | undefined) ?? null
}

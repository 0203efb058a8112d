import type { Viewer } from '../access/viewer.ts'
import type { Memory } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import { checkText } from '../lib/validate.ts'
import { type Tx, within } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { checkAgent, lockAgentRow } from './existing-agent.ts'

export interface MemoryInput {
  key: string
  value: string
}

/**
 * What agents wrote down, by key. Every key is written for itself, the last writer of one wins: an admin's edit and an
 * agent's at the same time lose neither.
 */
export interface Memories {
  /** Each agent's memories by key; an agent without any is left out. */
  listMany(agentIds: readonly string[]): Promise<Map<string, Memory[]>>
  /**
   * Writes keys of an agent, for the agent itself; comes back with all its memories. A key given twice holds its last value.
   * In the caller's transaction where there is one, as all that agents do for themselves.
   * @throws BadInputError, LimitExceededError past 500 memories, NotFoundError for no agent.
   */
  set(agentId: string, memories: readonly MemoryInput[], tx?: Tx): Promise<Memory[]>
  /** Forgets keys of an agent, for the agent itself; comes back with those that there were. */
  delete(agentId: string, keys: readonly string[], tx?: Tx): Promise<string[]>
  /** `set` for a viewer: admins only. */
  setAs(viewer: Viewer, input: { agentId: string; memories: readonly MemoryInput[] }): Promise<Memory[]>
  /** `delete` for a viewer: admins only. @throws NotFoundError for no agent. */
  deleteAs(viewer: Viewer, input: { agentId: string; keys: readonly string[] }): Promise<string[]>
}

const MOST_MEMORIES = 500
const LONGEST_KEY = 200
const LONGEST_VALUE = 10_000

export function createMemories({ db, clock }: Pick<Platform, 'db' | 'clock'>): Memories {
  const memories: Memories = {
    async listMany(agentIds) {
      const rows = await db.prisma.memory.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { key: 'asc' }],
      })
      return Map.groupBy(rows, ({ agentId }) => agentId)
    },
    async set(agentId, given, outer) {
      const values = checkMemories(given)
      return within(db, outer, async (tx) => {
        await lockAgentRow(tx, agentId)
        await upsert(tx, agentId, values, new Date(clock.now()))
        const all = await tx.memory.findMany({ where: { agentId }, orderBy: { key: 'asc' } })
        if (all.length > MOST_MEMORIES) {
          throw new LimitExceededError(`An agent has at most ${MOST_MEMORIES} memories: delete some first.`)
        }
        return all
      })
    },
    async delete(agentId, keys, tx = db.prisma) {
      const rows = await tx.$queryRaw<{ key: string }[]>`
        DELETE FROM "Memory" WHERE "agentId" = ${agentId} AND key = ANY(${keys.filter((key) => !key.includes('\0'))}::text[]) RETURNING key`
      return rows.map(({ key }) => key)
    },
    async setAs(viewer, input) {
      checkAdmin(viewer)
      return memories.set(input.agentId, input.memories)
    },
    async deleteAs(viewer, { agentId, keys }) {
      checkAdmin(viewer)
      await checkAgent(db.prisma, agentId)
      return memories.delete(agentId, keys)
    },
  }
  return memories
}

function checkAdmin(viewer: Viewer): void {
  if (viewer.scope !== 'ADMIN') throw new ForbiddenError("Only an admin can change an agent's memories.")
}

function checkMemories(given: readonly MemoryInput[]): Map<string, string> {
  if (given.length > MOST_MEMORIES) throw new BadInputError(`At most ${MOST_MEMORIES} memories.`, 'input.memories')
  return new Map(
    given.map(({ key, value }, index) => {
      const field = `input.memories.${index}`
      if (key.trim() === '') throw new BadInputError('A memory needs a key.', `${field}.key`)
      return [checkText(key, LONGEST_KEY, `${field}.key`), checkText(value, LONGEST_VALUE, `${field}.value`)]
    }),
  )
}

async function upsert(tx: Tx, agentId: string, values: Map<string, string>, updatedAt: Date): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "Memory" ("agentId", key, value, "updatedAt")
    SELECT ${agentId}, given.key, given.value, ${updatedAt}
    FROM unnest(${[...values.keys()]}::text[], ${[...values.values()]}::text[]) AS given(key, value)
    ON CONFLICT ("agentId", key) DO UPDATE SET value = excluded.value, "updatedAt" = excluded."updatedAt"`
}

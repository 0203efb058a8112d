import type { Viewer } from '../access/viewer.ts'
import { isKnownTo, type Marks, UNMARKED } from '../confidentiality/marks.ts'
import { type Memory, Prisma } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { checkNameCharacters, checkText } from '../lib/validate.ts'
import { inTransaction, type Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { deleteMemories, upsertMemories } from '../stores/knowledge-store.ts'
import { checkNumberOfNotes, type NumberedNotes } from '../stores/note-limits.ts'
import { checkAgent, lockAgentRow } from './existing-agent.ts'

export interface MemoryInput {
  key: string
  value: string
}

/**
 * Manages the memories of agents by key. Each key is written separately, so that an admin and an agent can change
 * different keys at the same time. For the same key, the last write wins.
 */
export interface Memories {
  /** Returns the memories of each agent by key. The map has no entry for an agent without memories. */
  listMany(agentIds: readonly string[]): Promise<Map<string, Memory[]>>
  /**
   * Writes memories for the agent itself. Returns all memories that its run may read. If a key is repeated, its last
   * value wins. The same key with another label is a different memory and does not change. `by` contains the caller's
   * transaction and the marks of the run.
   * @throws BadInputError, LimitExceededError above 500 memories that the run may read or 10,000 in total,
   * NotFoundError for an unknown agent
   */
  set(agentId: string, memories: readonly MemoryInput[], by?: { tx: Tx; marks: Marks }): Promise<Memory[]>
  /** Deletes memories for the agent itself, if its run may read them. Returns the deleted keys. */
  delete(agentId: string, keys: readonly string[], by?: { tx: Tx; marks: Marks }): Promise<string[]>
  /** Like `set`, but for a viewer. Only admins may call it. */
  setAs(viewer: Viewer, input: { agentId: string; memories: readonly MemoryInput[] }): Promise<Memory[]>
  /**
   * Like `delete`, but for a viewer, and for memories with any label. Only admins may call it.
   * @throws NotFoundError for an unknown agent
   */
  deleteAs(viewer: Viewer, input: { agentId: string; keys: readonly string[] }): Promise<string[]>
}

const MOST_MEMORIES = 500
const MEMORIES: NumberedNotes = { table: 'Memory', what: 'memories', most: MOST_MEMORIES }
const LONGEST_KEY = 200
const LONGEST_VALUE = 10_000

export function createMemories({ db, clock }: Pick<Platform, 'db' | 'clock'>): Memories {
  const memories: Memories = {
    async listMany(agentIds) {
      const rows = await db.prisma.memory.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { key: 'asc' }, { id: 'asc' }],
      })
      return Map.groupBy(rows, ({ agentId }) => agentId)
    },
    async set(agentId, given, by) {
      const values = checkMemories(given)
      return inTransaction(db, by?.tx, async (tx) => {
        await lockAgentRow(tx, agentId)
        const { places, label } = by?.marks ?? UNMARKED
        await upsertMemories(tx, agentId, values, { updatedAt: new Date(clock.now()), places, label })
        const rows = await tx.$queryRaw<Memory[]>`
          SELECT * FROM "Memory" WHERE "agentId" = ${agentId} AND ${isKnownTo({ places, label })} ORDER BY key, id`
        await checkNumberOfNotes(tx, MEMORIES, { agentId, marks: { places, label }, readable: rows.length })
        return rows
      })
    },
    async delete(agentId, keys, by) {
      const isKnown = by === undefined ? Prisma.sql`true` : isKnownTo(by.marks)
      const storable = keys.filter((key) => !key.includes('\0'))
      return [...new Set(await deleteMemories(by?.tx ?? db.prisma, agentId, storable, isKnown))]
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
  requireAdmin(viewer, "change an agent's memories")
}

function checkMemories(given: readonly MemoryInput[]): Map<string, string> {
  if (given.length > MOST_MEMORIES)
    throw new BadInputError(`A request can contain at most ${MOST_MEMORIES} memories.`, 'input.memories')
  return new Map(
    given.map(({ key, value }, index) => {
      const field = `input.memories.${index}`
      checkNameCharacters(key, `${field}.key`)
      if (key.trim() === '') throw new BadInputError('A memory needs a key.', `${field}.key`)
      return [checkText(key, LONGEST_KEY, `${field}.key`), checkText(value, LONGEST_VALUE, `${field}.value`)]
    }),
  )
}

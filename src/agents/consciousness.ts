import { type Cycle, Prisma } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'

/** The consciousness of a persistent agent: the earlier think cycles that can be shown to its model. */
export interface Consciousness {
  agentId: string
  /** The messages of the cycles as AI SDK ModelMessage[], oldest first. A later cycle may get only some of them. */
  messages: unknown[]
  cycleCount: number
  /** The estimated number of tokens of all cycles. */
  tokenEstimate: number
  lastCycleAt: Date | null
}

export interface ConsciousnessReading {
  /**
   * Returns the consciousness of each agent, in the order of the ids; null for a stateless or unknown agent. `messages`
   * contains the newest cycles, up to about 500,000 tokens. For earlier cycles, see the generations of their runs.
   * Executes two statements for any number of agents.
   */
  getMany(agentIds: readonly string[]): Promise<(Consciousness | null)[]>
  /** Returns cycles in the order of the ids; null for an unknown id. */
  cycles(ids: readonly string[]): Promise<(Cycle | null)[]>
  /**
   * Returns a page of each agent's cycles, oldest first, in the order of the ids. Executes two statements for any
   * number of agents.
   */
  pageMany(agentIds: readonly string[], request: PageRequest): Promise<Page<Cycle>[]>
}

const MOST_TOKENS = 500_000

interface AgentRow {
  id: string
  cycleCount: number
  tokenEstimate: number
  lastCycleAt: Date | null
}

export function createConsciousnessReading({ db }: Platform): ConsciousnessReading {
  async function cyclesOf(ids: readonly string[]): Promise<(Cycle | null)[]> {
    return inOrderOf(ids, await db.prisma.cycle.findMany({ where: { id: { in: wellFormedIds(ids) } } }))
  }

  return {
    cycles: cyclesOf,
    async pageMany(agentIds, request) {
      const source = Prisma.sql`
        SELECT c.id FROM "Cycle" c WHERE c."agentId" = parent.id
          AND c.index >= (SELECT a."firstCycle" FROM "Agent" a WHERE a.id = parent.id)`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(agentIds)], source, order: 'oldest', request })
      const ids = [...pages.values()].flatMap(({ items }) => items)
      const cycles = new Map((await cyclesOf(ids)).flatMap((cycle) => (cycle === null ? [] : [[cycle.id, cycle]])))
      return agentIds.map((agentId) => {
        const page = pages.get(agentId) ?? { items: [], hasNextPage: false, hasPreviousPage: false }
        return { ...page, items: page.items.flatMap((id) => cycles.get(id) ?? []) }
      })
    },
    async getMany(agentIds) {
      const ids = [...new Set(agentIds)]
      const [agents, cycles] = await Promise.all([
        db.prisma.$queryRaw<AgentRow[]>`
          SELECT a.id, count(c.index)::int AS "cycleCount", coalesce(sum(c."tokenEstimate"), 0)::int AS "tokenEstimate",
            max(c."createdAt") AS "lastCycleAt"
          FROM "Agent" a LEFT JOIN "Cycle" c ON c."agentId" = a.id AND c.index >= a."firstCycle"
          WHERE a.id = ANY(${ids}::text[]) AND a.mind = 'PERSISTENT' GROUP BY a.id`,
        db.prisma.$queryRaw<{ agentId: string; messages: unknown[] }[]>`
          SELECT newest."agentId", c.messages FROM (
            SELECT c."agentId", c.index, c."tokenEstimate",
              sum(c."tokenEstimate") OVER (PARTITION BY c."agentId" ORDER BY c.index DESC) AS "upTo"
            FROM "Cycle" c JOIN "Agent" a ON a.id = c."agentId" AND c.index >= a."firstCycle"
            WHERE c."agentId" = ANY(${ids}::text[])
          ) newest JOIN "Cycle" c ON c."agentId" = newest."agentId" AND c.index = newest.index
          WHERE newest."upTo" - newest."tokenEstimate" < ${MOST_TOKENS} ORDER BY c.index`,
      ])
      const messages = Map.groupBy(cycles, ({ agentId }) => agentId)
      return agentIds.map((agentId) => {
        const agent = agents.find(({ id }) => id === agentId)
        if (agent === undefined) return null
        const { id: _id, ...figures } = agent
        return { agentId, ...figures, messages: (messages.get(agentId) ?? []).flatMap((cycle) => cycle.messages) }
      })
    },
  }
}

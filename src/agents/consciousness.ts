import type { Platform } from '../platform/platform.ts'

/** What a persistent agent carries from one think cycle to the next. */
export interface Consciousness {
  /** AI SDK ModelMessage[], oldest first: the cycles as they were, whatever later ones are shown of them. */
  messages: unknown[]
  cycleCount: number
  /** Of all cycles. */
  tokenEstimate: number
  lastCycleAt: Date | null
}

export interface ConsciousnessReading {
  /**
   * In the order of the ids; null for a stateless agent, or none. `messages` are those of the last cycles with some 500,000
   * tokens together; what earlier ones were sent and answered stands in their runs. Two statements, however many agents.
   */
  getMany(agentIds: readonly string[]): Promise<(Consciousness | null)[]>
}

const MOST_TOKENS = 500_000

interface AgentRow {
  id: string
  cycleCount: number
  tokenEstimate: number
  lastCycleAt: Date | null
}

export function createConsciousnessReading({ db }: Platform): ConsciousnessReading {
  return {
    async getMany(agentIds) {
      const ids = [...new Set(agentIds)]
      const [agents, cycles] = await Promise.all([
        db.prisma.$queryRaw<AgentRow[]>`
          SELECT a.id, a."cycleCount" - a."firstCycle" AS "cycleCount", coalesce(sum(c."tokenEstimate"), 0)::int AS "tokenEstimate",
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
        return { ...figures, messages: (messages.get(agentId) ?? []).flatMap((cycle) => cycle.messages) }
      })
    },
  }
}

import type { Platform } from '../platform/platform.ts'

/** What a persistent agent carries from one think cycle to the next. */
export interface Consciousness {
  /** AI SDK ModelMessage[], oldest first. */
  messages: unknown[]
  cycleCount: number
  tokenEstimate: number
  lastCycleAt: Date | null
}

export interface ConsciousnessReading {
  /** In the order of the ids; null for a stateless agent, or none. */
  getMany(agentIds: readonly string[]): Promise<(Consciousness | null)[]>
}

export function createConsciousnessReading({ db }: Platform): ConsciousnessReading {
  return {
    async getMany(agentIds) {
      const where = { id: { in: [...agentIds] }, mind: 'PERSISTENT' as const }
      const agents = await db.prisma.agent.findMany({ where, select: { id: true, cycleCount: true } })
      const ids = agents.map(({ id }) => id)
      const cycles = await db.prisma.cycle.findMany({ where: { agentId: { in: ids } }, orderBy: { index: 'asc' } })
      const byAgent = Map.groupBy(cycles, ({ agentId }) => agentId)
      return agentIds.map((agentId) => {
        const agent = agents.find(({ id }) => id === agentId)
        if (agent === undefined) return null
        const rows = byAgent.get(agentId) ?? []
        return {
          messages: rows.flatMap(({ messages }) => messages as unknown[]),
          cycleCount: agent.cycleCount,
          tokenEstimate: rows.reduce((sum, { tokenEstimate }) => sum + tokenEstimate, 0),
          lastCycleAt: rows.at(-1)?.createdAt ?? null,
        }
      })
    },
  }
}

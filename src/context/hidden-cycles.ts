import { RULES } from '../confidentiality/rules.ts'
import { readWorld } from '../confidentiality/world.ts'
import type { Database } from '../platform/db.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { Scene } from './scene.ts'

/**
 * Divides the confidential spaces from which an agent's cycles come into two groups. The cycles of the first group are
 * hidden from a run that works in this space.
 */
export async function hiddenCycles(
  { prisma }: Database,
  agentId: string,
  { cycleMarks: marks, worksIn }: Pick<Scene, 'cycleMarks' | 'worksIn'>,
): Promise<{ hidden: string[]; label: string[]; withheld: Withheld[] }> {
  if (marks.length === 0) return { hidden: [], label: [], withheld: [] }
  const world = await readWorld(prisma, { marks, spaceIds: worksIn === null ? [] : [worksIn] })
  const label = RULES.labelOf(marks, world)
  const isOpen = (id: string) => RULES.mayRecall([id], worksIn, world)
  const hidden = label.filter((id) => !isOpen(id))
  if (hidden.length === 0) return { hidden, label, withheld: [] }
  const withheld = await prisma.$queryRaw<Withheld[]>`
    SELECT h.id AS "spaceId", 0 AS memories, 0 AS goals, 0 AS plans, (
      SELECT count(*) FROM "Cycle" WHERE "agentId" = ${agentId} AND places || label @> ARRAY[h.id])::int AS cycles
    FROM unnest(${hidden}::text[]) AS h(id)`
  return { hidden, label: label.filter(isOpen), withheld }
}

/** Adds up the numbers of withheld notes and cycles, by space. */
export function withheldTogether(notes: readonly Withheld[], cycles: readonly Withheld[]): Withheld[] {
  const ids = [...new Set([...notes, ...cycles].map(({ spaceId }) => spaceId))].sort()
  return ids.map((spaceId) => {
    const { memories = 0, goals = 0, plans = 0 } = notes.find((one) => one.spaceId === spaceId) ?? {}
    return { spaceId, memories, goals, plans, cycles: cycles.find((one) => one.spaceId === spaceId)?.cycles ?? 0 }
  })
}

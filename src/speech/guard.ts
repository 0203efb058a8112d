import type { Carrier, Discretion } from '../confidence/discretion.ts'
import { marksOf } from '../confidence/marks.ts'
import { type Cleared, mayBeWritten } from '../confidence/world.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ToolFailure } from '../tools/tool.ts'

/** What a run knows is written in a space only while those who hear it there may. */
export interface Guard {
  /** A condition on a row of "Space", the one in which something begins. */
  onSpace(spaceId: string): Prisma.Sql
  /** The same on any other row. */
  inSpace(spaceId: string): Prisma.Sql
  /** Looks at the space as it is now. @throws ToolFailure, CONFIDENTIAL */
  clear(spaceId: string): Promise<void>
  /** The same where the run knows anything that could be refused. */
  clearIfMarked(spaceId: string): Promise<void>
}

const CONFIDENTIAL = 'CONFIDENTIAL'

export function isConfidential(error: unknown): boolean {
  return error instanceof ToolFailure && error.code === CONFIDENTIAL
}

export function createGuard(carrier: Carrier, discretion: Pick<Discretion, 'toSpeak'>): Guard {
  const known = new Map<string, Cleared>()

  const onSpace = (spaceId: string) => mayBeWritten(spaceId, marksOf(carrier), known.get(spaceId) ?? null)

  async function clear(spaceId: string): Promise<void> {
    const clearance = await discretion.toSpeak(carrier, spaceId)
    if (clearance.type === 'refused') throw new ToolFailure(clearance.refusal.code, clearance.refusal.message)
    if (clearance.type === 'cleared') known.set(spaceId, clearance.cleared)
  }

  return {
    onSpace,
    inSpace: (spaceId) => Prisma.sql`EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND ${onSpace(spaceId)})`,
    clear,
    async clearIfMarked(spaceId) {
      if (carrier.label.length > 0) await clear(spaceId)
    },
  }
}

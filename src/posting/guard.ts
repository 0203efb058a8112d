import type { Carrier, Discretion } from '../confidentiality/discretion.ts'
import { marksOf } from '../confidentiality/marks.ts'
import { type Cleared, mayBeWritten } from '../confidentiality/world.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ToolFailure } from '../tools/tool.ts'

/** The confidentiality guard. It allows a run to post in a space only while all members may read the run's content. */
export interface Guard {
  /** Returns the guard's condition for a statement on the space's own row. */
  onSpace(spaceId: string): Prisma.Sql
  /** Returns the guard's condition for a statement on any other row. */
  inSpace(spaceId: string): Prisma.Sql
  /** Checks the current members. @throws ToolFailure with the code CONFIDENTIAL */
  clear(spaceId: string): Promise<void>
  /** Checks the current members if the run has confidential content. @throws ToolFailure with the code CONFIDENTIAL */
  clearIfMarked(spaceId: string): Promise<void>
}

const CONFIDENTIAL = 'CONFIDENTIAL'

export function isConfidential(error: unknown): boolean {
  return error instanceof ToolFailure && error.code === CONFIDENTIAL
}

/** `carrier` returns the run with its current marks. */
export function createGuard(carrier: () => Carrier, discretion: Pick<Discretion, 'toSpeak'>): Guard {
  const known = new Map<string, Cleared>()

  const onSpace = (spaceId: string) => mayBeWritten(spaceId, marksOf(carrier()), known.get(spaceId) ?? null)

  async function clear(spaceId: string): Promise<void> {
    const clearance = await discretion.toSpeak(carrier(), spaceId)
    if (clearance.type === 'refused') throw new ToolFailure(clearance.refusal.code, clearance.refusal.message)
    if (clearance.type === 'cleared') known.set(spaceId, clearance.cleared)
  }

  return {
    onSpace,
    inSpace: (spaceId) => Prisma.sql`EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND ${onSpace(spaceId)})`,
    clear,
    async clearIfMarked(spaceId) {
      if (carrier().label.length > 0) await clear(spaceId)
    },
  }
}

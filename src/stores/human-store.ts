import type { HumanRole } from '../generated/prisma/enums.ts'
import type { Tx } from '../platform/db.ts'
import { checkRoleChange, leavesNoAdmin } from '../rules/roles.ts'
import { deleteSessions } from './session-store.ts'

/** Writes the column `role` of the table `Entity`. */

/** The consequences of another role. The caller publishes it after the commit with `publishRoleChange`. */
export interface RoleChange {
  humanId: string
  role: HumanRole
  /** The human's sessions, which have ended. */
  endedSessionIds: string[]
  /** Whether nobody has the role ADMIN any more. */
  leavesNoAdmin: boolean
}

/**
 * Gives a human another role, and ends the human's sessions: with the role, their rights have changed.
 *
 * @param by the human who makes the change; null for the operator, or for a sign-in service that decides on roles
 * @returns null if the human has this role already, or does not exist
 * @throws ForbiddenError if `by` is a human and the last person with the role ADMIN would lose it
 */
export async function changeRole(
  tx: Tx,
  { humanId, role, by }: { humanId: string; role: HumanRole; by: string | null },
): Promise<RoleChange | null> {
  // In the order of the ids, so that two admins who take the role from each other wait and do not both succeed.
  const admins = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "Entity" WHERE role = 'ADMIN' AND "goneAt" IS NULL ORDER BY id FOR UPDATE`
  const adminIds = admins.map(({ id }) => id)
  if (adminIds.includes(humanId) === (role === 'ADMIN')) return null
  checkRoleChange({ humanId, role, by }, adminIds)
  const { count } = await tx.entity.updateMany({ where: { id: humanId, kind: 'HUMAN', goneAt: null }, data: { role } })
  if (count === 0) return null
  return {
    humanId,
    role,
    endedSessionIds: await deleteSessions(tx, { scope: 'HUMAN', viewerId: humanId }),
    leavesNoAdmin: leavesNoAdmin({ humanId, role }, adminIds),
  }
}

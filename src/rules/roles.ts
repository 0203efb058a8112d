import type { HumanRole } from '../generated/prisma/enums.ts'
import { ForbiddenError } from '../lib/errors.ts'

/**
 * Checks that a human's role may change, or that a human may be erased. Only the operator or an identity provider may
 * remove the last person with the role ADMIN, so that the last admin cannot lock everybody out by mistake.
 *
 * @param by the human who makes the change; null for the operator or the identity provider
 * @param adminIds the humans with the role ADMIN before the change
 * @throws ForbiddenError
 */
export function checkRoleChange(
  { humanId, role, by }: { humanId: string; role: HumanRole; by: string | null },
  adminIds: readonly string[],
): void {
  if (by !== null && leavesNoAdmin({ humanId, role }, adminIds))
    throw new ForbiddenError(
      "No other person has the role ADMIN. Give the role to another person first, or use the operator's token.",
    )
}

/** Whether a change removes the role ADMIN from the last person who has it. */
export function leavesNoAdmin(
  { humanId, role }: { humanId: string; role: HumanRole },
  adminIds: readonly string[],
): boolean {
  return role === 'MEMBER' && adminIds.includes(humanId) && adminIds.length === 1
}

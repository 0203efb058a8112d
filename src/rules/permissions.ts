import type { HumanRole, TokenScope } from '../generated/prisma/enums.ts'
import { ForbiddenError } from '../lib/errors.ts'

/** The fields of a viewer that determine whether the viewer is an admin. */
export interface Ranked {
  readonly scope: TokenScope
  /** The role of the human; absent if this credential does not give the viewer the role. */
  readonly role?: HumanRole
}

/** Whether a viewer has all rights of the operator: with the scope ADMIN, or as a human with the role ADMIN. */
export function isAdmin({ scope, role }: Ranked): boolean {
  return scope === 'ADMIN' || (scope === 'HUMAN' && role === 'ADMIN')
}

/**
 * Allows the action only to admins.
 *
 * @param action the attempted action, for the error message, such as `create agents`
 * @throws ForbiddenError
 */
export function requireAdmin(viewer: Ranked, action: string): void {
  if (!isAdmin(viewer)) throw new ForbiddenError(`Only an admin can ${action}.`)
}

import type { TokenScope } from '../generated/prisma/enums.ts'
import { ForbiddenError } from '../lib/errors.ts'

/**
 * Lets only admins pass.
 *
 * @param action What the viewer tries, for the error: `create agents`.
 * @throws ForbiddenError
 */
export function requireAdmin({ scope }: { readonly scope: TokenScope }, action: string): void {
  if (scope !== 'ADMIN') throw new ForbiddenError(`Only an admin can ${action}.`)
}

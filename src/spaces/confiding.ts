import type { Viewer } from '../access/viewer.ts'
import type { Space } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'

/** With PARLEY_CONFIDENTIAL_SPACES, new spaces with up to this many humans are confidential by default. */
const MOST_OF_A_FEW = 2

const FIELD = 'input.confidential'

/**
 * Whether a new space is confidential: as requested, else, if PARLEY_CONFIDENTIAL_SPACES is
 * set, when it has one or two humans.
 * @throws BadInputError for a space without a human
 */
export function confidentialAtFirst(
  asked: boolean | null | undefined,
  { humans, isDefault }: { humans: number; isDefault: boolean },
): boolean {
  if (asked === true) checkHasHuman(humans)
  return asked ?? (isDefault && humans > 0 && humans <= MOST_OF_A_FEW)
}

/**
 * The value after an update, under the space's lock.
 * @throws ForbiddenError for a human who would end the confidentiality; BadInputError for a space
 * without a human, and for null
 */
export async function confidentialFromNow(
  tx: Tx,
  viewer: Viewer,
  before: Pick<Space, 'id' | 'confidential'>,
  asked: boolean | null | undefined,
): Promise<{ confidential?: boolean }> {
  if (asked === undefined || asked === before.confidential) return {}
  if (asked === null) throw new BadInputError('Must not be null; omit the field to keep its current value.', FIELD)
  if (!asked && viewer.scope !== 'ADMIN')
    throw new ForbiddenError(
      'Only an admin can end the confidentiality of a space, because its messages would no longer be protected.',
    )
  if (asked) checkHasHuman(await tx.membership.count({ where: { spaceId: before.id, entity: { kind: 'HUMAN' } } }))
  return { confidential: asked }
}

function checkHasHuman(humans: number): void {
  if (humans === 0) throw new BadInputError('A confidential space needs at least one human member.', FIELD)
}

import { BadInputError } from '../lib/errors.ts'
import { requireAdmin } from './permissions.ts'

/** With PARLEY_CONFIDENTIAL_SPACES, new spaces with at most this number of humans are confidential by default. */
const MOST_OF_A_FEW = 2

const FIELD = 'input.confidential'

/**
 * Whether a new space is confidential. Without a request, it is confidential if PARLEY_CONFIDENTIAL_SPACES is set and
 * the space has one or two humans.
 * @throws BadInputError for a confidential space without a human
 */
export function confidentialAtFirst(
  asked: boolean | null | undefined,
  { humans, isDefault }: { humans: number; isDefault: boolean },
): boolean {
  if (asked === true) checkHasHuman(humans)
  return asked ?? (isDefault && humans > 0 && humans <= MOST_OF_A_FEW)
}

/**
 * Checks whether the viewer may change the confidentiality of a space. Returns the new value; null if the value does
 * not change. For a space that becomes confidential, also call `checkHasHuman`.
 * @throws ForbiddenError if a human would end the confidentiality; BadInputError if the requested value is null
 */
export function confidentialFromNow(
  asked: boolean | null | undefined,
  { before, viewer }: { before: boolean; viewer: Parameters<typeof requireAdmin>[0] },
): boolean | null {
  if (asked === undefined || asked === before) return null
  if (asked === null) throw new BadInputError('Must not be null; omit the field to keep its current value.', FIELD)
  if (!asked)
    requireAdmin(viewer, 'end the confidentiality of a space, because its messages would no longer be protected')
  return asked
}

/** @throws BadInputError for a space without a human */
export function checkHasHuman(humans: number): void {
  if (humans === 0) throw new BadInputError('A confidential space needs at least one human member.', FIELD)
}

import type { TokenScope } from '../generated/prisma/enums.ts'
import { ForbiddenError } from '../lib/errors.ts'

/** A viewer, and whether an admin acts as that human. */
interface Acted {
  readonly scope: TokenScope
  readonly acting?: { readonly adminId: string | null }
}

/**
 * The mutations that an admin may perform while acting as another human: those that people use in spaces every day. All
 * others are refused, including future ones: decisions on calls and grants, answers in the person's name, tokens and links,
 * settings, read markers.
 */
const ALLOWED_WHILE_ACTING: ReadonlySet<string> = new Set([
  ...['sendMessage', 'editMessage', 'deleteMessage', 'react', 'setTyping'],
  ...['createSpace', 'joinSpace', 'addMember', 'removeMember'],
  ...['stopRun', 'retryRun'],
  // Ends only the session itself.
  'endSession',
])

/** @throws ForbiddenError for an admin who acts as another human, if the mutation is not allowed while acting */
export function checkMutationWhileActing(viewer: Acted, mutation: string): void {
  if (viewer.acting !== undefined && !ALLOWED_WHILE_ACTING.has(mutation)) throw refusalOf(mutation)
}

/**
 * Allows only people themselves, not an admin who acts as one of them.
 *
 * @param action What the viewer tries, for the error: `decide on calls`.
 * @throws ForbiddenError
 */
export function requireInPerson(viewer: Acted, action: string): void {
  if (viewer.acting !== undefined) throw refusalOf(action)
}

const refusalOf = (action: string) =>
  new ForbiddenError(`You act as another person, for whom you cannot ${action}. Use your own sign-in.`)

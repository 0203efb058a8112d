import type { TokenScope } from '../generated/prisma/enums.ts'
import { ForbiddenError } from '../lib/errors.ts'

/** A viewer. If an admin acts as a human, the viewer is that human, and the admin is recorded here. */
interface Acted {
  readonly scope: TokenScope
  readonly acting?: { readonly adminId: string | null }
}

/**
 * The mutations that an admin may perform while acting as another human: everyday actions in spaces. All others are
 * refused: decisions on calls and grants, answers in the person's name, tokens and links, settings, read markers, and
 * any mutation that is added later.
 */
const ALLOWED_WHILE_ACTING: ReadonlySet<string> = new Set([
  'sendMessage',
  'editMessage',
  'deleteMessage',
  'react',
  'setTyping',
  'createSpace',
  'joinSpace',
  'addMember',
  'removeMember',
  'stopRun',
  'retryRun',
  // `endSession` ends only the acting session, not the person's own sessions.
  'endSession',
])

/** @throws ForbiddenError if an admin acts as another human and the mutation is not allowed while acting */
export function checkMutationWhileActing(viewer: Acted, mutation: string): void {
  if (viewer.acting !== undefined && !ALLOWED_WHILE_ACTING.has(mutation)) throw refusalOf(mutation)
}

/**
 * Refuses the action to an admin who acts as another human.
 *
 * @param action the attempted action, for the error message, such as `decide on calls`
 * @throws ForbiddenError
 */
export function requireInPerson(viewer: Acted, action: string): void {
  if (viewer.acting !== undefined) throw refusalOf(action)
}

const refusalOf = (action: string) =>
  new ForbiddenError(
    `You are acting as another person, so you cannot ${action}. Stop acting, and try again as yourself.`,
  )

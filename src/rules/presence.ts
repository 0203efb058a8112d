// The presence of people, and who may see it.

export type Presence = 'ONLINE' | 'AWAY' | 'OFFLINE'

/** The time after the last activity at which a connected human becomes AWAY. */
export const AWAY_AFTER_MS = 5 * 60_000

/** @param idleMs the time since the human connected or was last active */
export function presenceOf({ isConnected, idleMs }: { isConnected: boolean; idleMs: number }): Presence {
  if (!isConnected) return 'OFFLINE'
  return idleMs < AWAY_AFTER_MS ? 'ONLINE' : 'AWAY'
}

/**
 * Returns the presence that a viewer sees. People who share a space with the human, and admins, see the actual
 * presence unless the human hides it.
 */
export function shownPresence(
  presence: Presence,
  { isHidden, isAdmin, sharesSpace }: { isHidden: boolean; isAdmin: boolean; sharesSpace: boolean },
): Presence {
  return !isHidden && (isAdmin || sharesSpace) ? presence : 'OFFLINE'
}

/** The time for which a human is shown as typing after the last keystroke. */
export const TYPING_MS = 8000
/**
 * While the typing is shown for longer than this, further keystrokes change nothing, so that each person causes at
 * most one event every few seconds.
 */
const RENEWED_BELOW_MS = 5000

/** Returns the time until which somebody who types now is shown as typing. All times are in ms. */
export const typingUntil = (now: number, until: number | undefined): number =>
  until !== undefined && until - now > RENEWED_BELOW_MS ? until : now + TYPING_MS

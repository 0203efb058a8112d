// The presence of people, and the rule for who can see it.

export type Presence = 'ONLINE' | 'AWAY' | 'OFFLINE'

/** The time after the last activity at which a connected human becomes AWAY. */
export const AWAY_AFTER_MS = 5 * 60_000

/** @param idleMs the time since the human connected or was last active */
export function presenceOf({ isConnected, idleMs }: { isConnected: boolean; idleMs: number }): Presence {
  if (!isConnected) return 'OFFLINE'
  return idleMs < AWAY_AFTER_MS ? 'ONLINE' : 'AWAY'
}

/**
 * Returns the human's presence as a viewer sees it. Admins and people who share a space with the human see the actual
 * presence, unless the human hides it.
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
 * While typing will still be shown for longer than this, further keystrokes change nothing. So each person causes at
 * most one event every few seconds.
 */
const RENEWED_BELOW_MS = 5000

/** Returns how long a person who types now is shown as typing. All times are in milliseconds since 1970. */
export const typingUntil = (now: number, until: number | undefined): number =>
  until !== undefined && until - now > RENEWED_BELOW_MS ? until : now + TYPING_MS

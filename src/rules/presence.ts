// The presence of people, and the viewers who may see it.

export type Presence = 'ONLINE' | 'AWAY' | 'OFFLINE'

/** How long after the last activity a connected human becomes AWAY. */
export const AWAY_AFTER_MS = 5 * 60_000

/** @param idleMs the time since the human connected or changed something */
export function presenceOf({ isConnected, idleMs }: { isConnected: boolean; idleMs: number }): Presence {
  if (!isConnected) return 'OFFLINE'
  return idleMs < AWAY_AFTER_MS ? 'ONLINE' : 'AWAY'
}

/** Presence is shown to those who share a space with the human, and to admins, unless the human hides it. */
export function shownPresence(
  presence: Presence,
  { isHidden, isAdmin, sharesSpace }: { isHidden: boolean; isAdmin: boolean; sharesSpace: boolean },
): Presence {
  return !isHidden && (isAdmin || sharesSpace) ? presence : 'OFFLINE'
}

/** How long somebody is shown as typing after the last key stroke. */
export const TYPING_MS = 8000
/** While more than this time is left, further typing changes nothing, so that each person causes at most one event every few seconds. */
const RENEWED_BELOW_MS = 5000

/** Returns the time until which somebody who types now is shown as typing. All times are in ms. */
export const typingUntil = (now: number, until: number | undefined): number =>
  until !== undefined && until - now > RENEWED_BELOW_MS ? until : now + TYPING_MS

/** The kinds of notices. */
export type NoticeKind = 'DECISION_WAITING' | 'MENTION' | 'MESSAGE' | 'RUN_FAILED'

/** The messages of a space of which a member is notified. */
export type NotifyLevel = 'ALL' | 'MENTIONS' | 'NOTHING'

/** Something of which people may be notified. */
export type NoticeCause =
  | { type: 'message'; senderId: string; mentionedIds: readonly string[] }
  /** A call waits for a decision; `deciderIds`: the humans who may decide on it and have not yet. */
  | { type: 'decision'; deciderIds: readonly string[] }
  /** `askerIds`: the humans for whom the run worked. */
  | { type: 'failed-run'; askerIds: readonly string[] }

/** A human to whom a cause may be of interest. */
export interface NoticeReader {
  id: string
  /** The level in the space of the cause; null if the human is not a member of it. */
  level: NotifyLevel | null
}

/**
 * Returns the kind of notice that a human gets for a cause; null for nothing. A decision is waiting for the human, so that
 * the level of the space does not matter. It is applied when the cause happens, and again before each message is sent.
 */
export function noticeKindOf(cause: NoticeCause, { id, level }: NoticeReader): NoticeKind | null {
  switch (cause.type) {
    case 'decision':
      return cause.deciderIds.includes(id) ? 'DECISION_WAITING' : null
    case 'failed-run':
      return cause.askerIds.includes(id) && (level === 'ALL' || level === 'MENTIONS') ? 'RUN_FAILED' : null
    case 'message':
      if (cause.senderId === id || level === null || level === 'NOTHING') return null
      if (cause.mentionedIds.includes(id)) return 'MENTION'
      return level === 'ALL' ? 'MESSAGE' : null
  }
}

/** How a human is reached. */
export interface Reachability {
  push: boolean
  mail: boolean
  notifyAfterMinutes: number
  /** The human's push subscriptions. */
  subscriptionIds: readonly string[]
  hasAddress: boolean
  /** Whether this server sends mail. */
  sendsMail: boolean
}

/** The channels of a notice. Open pages of the human always show it. */
export interface NoticeChannels {
  subscriptionIds: readonly string[]
  /** Minutes after which a mail is sent, if the notice is still open then; null: no mail. */
  mailAfterMinutes: number | null
}

export function channelsOf(person: Reachability): NoticeChannels {
  return {
    subscriptionIds: person.push ? person.subscriptionIds : [],
    mailAfterMinutes: person.mail && person.hasAddress && person.sendsMail ? person.notifyAfterMinutes : null,
  }
}

/** The maximum of mails with notices to one human within an hour; more notices are gathered in the next mail. */
export const MOST_MAILS_AN_HOUR = 10
const HOUR_MS = 3_600_000

/** Returns when the next mail to a human may be sent, given the times of the last ones, oldest first. */
export function nextMailAt(mailedAt: readonly Date[], now: Date): Date {
  const recent = mailedAt.filter((at) => at.getTime() > now.getTime() - HOUR_MS)
  const earliest = recent.at(-MOST_MAILS_AN_HOUR)
  return earliest === undefined ? now : new Date(earliest.getTime() + HOUR_MS)
}

/** The ids that a notice consists of. It quotes nothing and names nobody. */
export interface NoticeIds {
  kind: NoticeKind
  spaceId: string | null
  messageId: string | null
  toolCallId: string | null
  runId: string | null
}

const LINES: Record<NoticeKind, string> = {
  DECISION_WAITING: 'A tool call waits for your decision.',
  MENTION: 'Somebody mentions you.',
  MESSAGE: 'There is a new message.',
  RUN_FAILED: 'A run that worked for you has failed.',
}

/** Returns what a push message or a mail says of notices of one kind. */
export function lineOf(kind: NoticeKind, count = 1): string {
  if (count === 1) return LINES[kind]
  switch (kind) {
    case 'DECISION_WAITING':
      return `${count} tool calls wait for your decision.`
    case 'MENTION':
      return `${count} messages mention you.`
    case 'MESSAGE':
      return `There are ${count} new messages.`
    case 'RUN_FAILED':
      return `${count} runs that worked for you have failed.`
  }
}

/** Returns the path of the console's page that shows the object of a notice. */
export function pathOfNotice({ kind, spaceId, messageId, runId }: NoticeIds): string {
  if (kind === 'RUN_FAILED' && runId !== null) return `/runs/${runId}`
  if (kind === 'DECISION_WAITING' && (spaceId === null || messageId === null)) return '/waiting'
  if (spaceId === null) return '/'
  return messageId === null ? `/spaces/${spaceId}` : `/spaces/${spaceId}#${messageId}`
}

/** Push messages with the same topic replace each other: those of a space's messages, and those of one call or run. */
export function topicOf({ kind, spaceId, toolCallId, runId }: NoticeIds): string {
  if (kind === 'DECISION_WAITING') return toolCallId ?? kind
  return (kind === 'RUN_FAILED' ? runId : spaceId) ?? kind
}

/** The bounds of `notifyAfterMinutes`: from at once to a week. */
export const LEAST_MINUTES = 0
export const MOST_MINUTES = 10_080
/** The maximum of push subscriptions of one human. */
export const MOST_SUBSCRIPTIONS = 20

/** The kinds of notices. */
export type NoticeKind = 'DECISION_WAITING' | 'MENTION' | 'MESSAGE' | 'RUN_FAILED'

/** The messages in a space of which a member is notified. */
export type NotifyLevel = 'ALL' | 'MENTIONS' | 'NOTHING'

/** An event of which people may be notified. */
export type NoticeCause =
  | { type: 'message'; senderId: string; mentionedIds: readonly string[] }
  /** A call waits for a decision. `deciderIds` are the humans who may decide on the call and have not done so yet. */
  | { type: 'decision'; deciderIds: readonly string[] }
  /** A run failed. `askerIds` are the humans for whom the run worked. */
  | { type: 'failed-run'; askerIds: readonly string[] }

/** A human who may be notified of a cause. */
export interface NoticeReader {
  id: string
  /** The human's level in the space of the cause; null if the human is not a member. */
  level: NotifyLevel | null
}

/**
 * Returns the kind of notice that a human gets for a cause; null for no notice. For a call that waits for the human's
 * decision, the human's level in the space is ignored. The rule is applied when the cause occurs, and again before each
 * push message or email is sent.
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

/** The ways in which a human can be notified. */
export interface Reachability {
  push: boolean
  mail: boolean
  notifyAfterMinutes: number
  /** The human's push subscriptions. */
  subscriptionIds: readonly string[]
  hasAddress: boolean
  /** Whether this server can send email. */
  sendsMail: boolean
}

/** The channels of a notice. The human's open pages always show it. */
export interface NoticeChannels {
  subscriptionIds: readonly string[]
  /** How many minutes the notice must stay open before an email is sent; null for no email. */
  mailAfterMinutes: number | null
}

export function channelsOf(person: Reachability): NoticeChannels {
  return {
    subscriptionIds: person.push ? person.subscriptionIds : [],
    mailAfterMinutes: person.mail && person.hasAddress && person.sendsMail ? person.notifyAfterMinutes : null,
  }
}

/** The maximum number of notification emails to one human per hour; further notices are combined in the next email. */
export const MOST_MAILS_AN_HOUR = 10
const HOUR_MS = 3_600_000

/**
 * Returns when the next email to a human may be sent. `mailedAt` contains the times of the last emails, oldest first.
 */
export function nextMailAt(mailedAt: readonly Date[], now: Date): Date {
  const recent = mailedAt.filter((at) => at.getTime() > now.getTime() - HOUR_MS)
  const earliest = recent.at(-MOST_MAILS_AN_HOUR)
  return earliest === undefined ? now : new Date(earliest.getTime() + HOUR_MS)
}

/** The content of a notice: ids only, without quotations or names. */
export interface NoticeIds {
  kind: NoticeKind
  spaceId: string | null
  messageId: string | null
  toolCallId: string | null
  runId: string | null
}

const LINES: Record<NoticeKind, string> = {
  DECISION_WAITING: 'A tool call waits for your decision.',
  MENTION: 'Somebody mentioned you.',
  MESSAGE: 'There is a new message.',
  RUN_FAILED: 'A run that worked for you has failed.',
}

/** Returns the text of a push message or an email about notices of one kind. */
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

/** Returns the path of the console page that shows the message, call or run of a notice. */
export function pathOfNotice({ kind, spaceId, messageId, runId }: NoticeIds): string {
  if (kind === 'RUN_FAILED' && runId !== null) return `/runs/${runId}`
  if (kind === 'DECISION_WAITING' && (spaceId === null || messageId === null)) return '/waiting'
  if (spaceId === null) return '/'
  return messageId === null ? `/spaces/${spaceId}` : `/spaces/${spaceId}#${messageId}`
}

/**
 * Returns the topic of a push message. A push message replaces an earlier one with the same topic. All messages of a
 * space share a topic, and each call and each run has its own.
 */
export function topicOf({ kind, spaceId, toolCallId, runId }: NoticeIds): string {
  if (kind === 'DECISION_WAITING') return toolCallId ?? kind
  return (kind === 'RUN_FAILED' ? runId : spaceId) ?? kind
}

/** The minimum of `notifyAfterMinutes`. The maximum, defined below, is a week. */
export const LEAST_MINUTES = 0
export const MOST_MINUTES = 10_080
/** The maximum number of push subscriptions of one human. */
export const MOST_SUBSCRIPTIONS = 20

import type { InboxEvent } from '../generated/prisma/client.ts'
import { cut, type Json, nameIn, oneLine } from '../lib/json.ts'
import { wokenByLine } from './chain-section.ts'

/** The payloads of all types of events. Each field exists only in some types. */
interface Payload {
  /** The following fields exist for SPACE_MESSAGE. */
  spaceId?: string
  spaceName?: string
  senderName?: string
  senderKind?: 'HUMAN' | 'AGENT'
  content?: string
  threadRootId?: string
  mention?: Json
  /** Set if the message was changed after the agent had read it. */
  change?: 'EDITED' | 'DELETED'
  messageId?: string
  /** When the message was sent. */
  sentAt?: string
  /** The following fields exist for PLAN and SERVICE. */
  name?: string
  instruction?: string
  payload?: Json
  /** For TOOL_RESULT: references to stored files. */
  files?: string[]
  /** The following fields exist for TOOL_RESULT. */
  toolName?: string
  toolCallId?: string
  result?: Json
  /** The decisions, in one line. */
  decisions?: string
}

const SNIPPET_LENGTH = 50
export const MOST_PREVIEW_LINES = 10
const PREVIEW = '[INBOX PREVIEW'
const URGENT = '[URGENT]'

/** Whether the content of a user message is a preview of the inbox. */
export const isPreview = (content: unknown): content is string =>
  typeof content === 'string' && content.startsWith(PREVIEW)

/** Whether the content of a user message shows events that were claimed during the cycle. */
export const isUrgent = (content: unknown): boolean => typeof content === 'string' && content.startsWith(URGENT)

/** Returns the user message with which a cycle starts. Text by others is quoted as JSON. */
export function inboxMessage(events: InboxEvent[], at: Date): string {
  const count = events.length === 1 ? '1 event' : `${events.length} events`
  return [`INBOX (${count}, ${at.toISOString()}):`, ...events.map(lineOf)].join('\n')
}

/** Returns the message for events that were claimed during the cycle. */
export function urgentMessage(events: InboxEvent[]): string {
  return [URGENT, ...events.map(lineOf)].join('\n')
}

/** Returns a preview of the inbox: the number of waiting events, and the first few of them. */
export function previewMessage(events: InboxEvent[], total: number): string {
  const lines = events.slice(0, MOST_PREVIEW_LINES).map(previewLineOf)
  return [`${PREVIEW} — ${total} waiting]`, ...lines].join('\n')
}

/**
 * Returns the line of an event, and a second line with the reason if another agent mentioned this agent or delegated to
 * it.
 */
function lineOf(event: InboxEvent): string {
  const wokenBy = wokenByLine(event.wokenBy)
  return wokenBy === null ? sourceLineOf(event) : `${sourceLineOf(event)}\n  ${wokenBy}`
}

function sourceLineOf(event: InboxEvent): string {
  const payload = event.payload as Payload
  switch (event.type) {
    case 'SPACE_MESSAGE': {
      const who = `${nameIn(payload.senderName ?? 'somebody')} (${(payload.senderKind ?? 'HUMAN').toLowerCase()})`
      const where = `[${nameIn(payload.spaceName ?? '')} (id: ${payload.spaceId})${threadOf(payload)}] ${who}`
      if (payload.change === 'DELETED')
        return `- [DELETED] ${where}: ${whichOf(payload)} was deleted. Do not use what it said.`
      const line = `${where}: ${JSON.stringify(payload.content ?? '')}${addressOf(payload)}`
      return payload.change === 'EDITED' ? `- [EDITED] ${line}\n  It replaces ${whichOf(payload)}.` : `- ${line}`
    }
    case 'PLAN':
      return `- [PLAN ${nameIn(payload.name ?? '')}] ${oneLine(payload.instruction ?? '')}`
    case 'SERVICE':
      return `- [SERVICE ${nameIn(payload.name ?? '')}] ${JSON.stringify(payload.payload ?? null)}`
    case 'TOOL_RESULT':
      return `- [TOOL_RESULT ${payload.toolName} (id: ${payload.toolCallId})] ${JSON.stringify(payload.result ?? null)}${filesOf(payload)}${decisionsOf(payload)}`
  }
}

/** Returns references to files that a tool returned. */
const filesOf = ({ files = [] }: Payload) => files.map((file) => ` ${oneLine(file)}`).join('')

/** Describes the thread of a message by the thread's first message. */
const threadOf = ({ threadRootId }: Payload) => (threadRootId === undefined ? '' : `, thread on ${threadRootId}`)

/** Describes a message that the agent has already read. */
const whichOf = ({ messageId, sentAt }: Payload) =>
  messageId === undefined
    ? 'a message that you have read'
    : `the message ${messageId} of ${sentAt}, which you have read`

/** Returns the text about the decisions on a call that needed approval. It follows the call's result. */
function decisionsOf({ decisions }: Payload): string {
  return decisions === undefined ? '' : `\n  It was ${decisions}.`
}

/** Returns the text about a message's addressee. It follows the message. */
function addressOf({ mention }: Payload): string {
  const { mentionReason, addressee } = (mention ?? {}) as {
    mentionReason?: string
    addressee?: { id: string; name: string }
  }
  if (mentionReason !== undefined) return '\n  It mentions you.'
  return addressee === undefined ? '' : `\n  It is addressed to ${nameIn(addressee.name)} (id: ${addressee.id}).`
}

/**
 * Returns a line with the space, the sender and the first words, such as ` [Family] Husam: "Actually cancel that, I
 * changed my mi..."`.
 */
export function previewLineOf({ type, payload: json }: Pick<InboxEvent, 'type' | 'payload'>): string {
  const payload = json as Payload
  const source = type === 'SPACE_MESSAGE' ? payload.spaceName : type
  const sender = payload.senderName ?? payload.name ?? payload.toolName ?? 'system'
  const said = payload.content ?? payload.instruction ?? JSON.stringify(payload.payload ?? payload.result ?? null)
  return `  [${nameIn(source ?? type)}] ${nameIn(sender)}: ${JSON.stringify(`${cut(oneLine(said), SNIPPET_LENGTH)}...`)}`
}

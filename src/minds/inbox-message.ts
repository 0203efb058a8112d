import type { InboxEvent } from '../generated/prisma/client.ts'
import { cut, type Json, nameIn, oneLine } from '../lib/json.ts'
import { wokenByLine } from './chain-section.ts'

/** What the events' payloads hold, by the event's type; absent where an event was written otherwise. */
interface Payload {
  /** SPACE_MESSAGE */
  spaceId?: string
  spaceName?: string
  senderName?: string
  senderKind?: 'HUMAN' | 'AGENT'
  content?: string
  mention?: Json
  /** PLAN, SERVICE */
  name?: string
  instruction?: string
  payload?: Json
  /** TOOL_RESULT */
  toolName?: string
  toolCallId?: string
  result?: Json
  /** One line. */
  decisions?: string
}

const SNIPPET_LENGTH = 50
export const MOST_PREVIEW_LINES = 10

/** The one user message that a cycle begins with. What others wrote stands in JSON quotes. */
export function inboxMessage(events: InboxEvent[], at: Date): string {
  const count = events.length === 1 ? '1 event' : `${events.length} events`
  return [`INBOX (${count}, ${at.toISOString()}):`, ...events.map(lineOf)].join('\n')
}

/** Events that were taken while the cycle was under way. */
export function urgentMessage(events: InboxEvent[]): string {
  return ['[URGENT]', ...events.map(lineOf)].join('\n')
}

/** A glance at what waits: `total` events, of which the first are given. */
export function previewMessage(events: InboxEvent[], total: number): string {
  const lines = events.slice(0, MOST_PREVIEW_LINES).map(previewLineOf)
  return [`[INBOX PREVIEW — ${total} waiting]`, ...lines].join('\n')
}

/** An event that another agent handed on says below it who, how and why. */
function lineOf(event: InboxEvent): string {
  const wokenBy = wokenByLine(event.wokenBy)
  return wokenBy === null ? sourceLineOf(event) : `${sourceLineOf(event)}\n  ${wokenBy}`
}

function sourceLineOf(event: InboxEvent): string {
  const payload = event.payload as Payload
  switch (event.type) {
    case 'SPACE_MESSAGE': {
      const who = `${nameIn(payload.senderName ?? 'somebody')} (${(payload.senderKind ?? 'HUMAN').toLowerCase()})`
      return `- [${nameIn(payload.spaceName ?? '')} (id: ${payload.spaceId})] ${who}: ${JSON.stringify(payload.content ?? '')}${addressOf(payload)}`
    }
    case 'PLAN':
      return `- [PLAN ${nameIn(payload.name ?? '')}] ${oneLine(payload.instruction ?? '')}`
    case 'SERVICE':
      return `- [SERVICE ${nameIn(payload.name ?? '')}] ${JSON.stringify(payload.payload ?? null)}`
    case 'TOOL_RESULT':
      return `- [TOOL_RESULT ${payload.toolName} (id: ${payload.toolCallId})] ${JSON.stringify(payload.result ?? null)}${decisionsOf(payload)}`
  }
}

/** Below the result of a call that people decided on: what they decided. */
function decisionsOf({ decisions }: Payload): string {
  return decisions === undefined ? '' : `\n  It was ${decisions}.`
}

/** Below a message that was addressed to somebody: to whom. */
function addressOf({ mention }: Payload): string {
  const { mentionReason, addressee } = (mention ?? {}) as {
    mentionReason?: string
    addressee?: { id: string; name: string }
  }
  if (mentionReason !== undefined) return '\n  It mentions you.'
  return addressee === undefined ? '' : `\n  It is addressed to ${nameIn(addressee.name)} (id: ${addressee.id}).`
}

/** Sender, space and first words: `  [Family] Husam: "Actually cancel that, I changed my mi..."`. */
function previewLineOf({ type, payload: json }: InboxEvent): string {
  const payload = json as Payload
  const source = type === 'SPACE_MESSAGE' ? payload.spaceName : type
  const sender = payload.senderName ?? payload.name ?? payload.toolName ?? 'system'
  const said = payload.content ?? payload.instruction ?? JSON.stringify(payload.payload ?? payload.result ?? null)
  return `  [${nameIn(source ?? type)}] ${nameIn(sender)}: ${JSON.stringify(`${cut(oneLine(said), SNIPPET_LENGTH)}...`)}`
}

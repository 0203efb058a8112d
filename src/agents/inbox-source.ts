import type { InboxEvent } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'

/** The text that replaces the content of an event from a space that the agent has left. */
export const OF_A_SPACE_LEFT = 'a message in a space that you are no longer a member of'

/** The fields of an event's payload that describe its source. */
interface Source {
  spaceId?: string
  spaceName?: string
  senderName?: string
  senderKind?: 'HUMAN' | 'AGENT'
  name?: string
  toolName?: string
}

/** Returns a description of an event's source, without the event's content. */
export function sourceNameOf({ type, payload: json }: Pick<InboxEvent, 'type' | 'payload'>): string {
  const payload = json as Source
  const name = JSON.stringify(oneLine(payload.name ?? payload.toolName ?? ''))
  if (type === 'PLAN') return `the plan ${name}`
  if (type === 'SERVICE') return `the service ${name}`
  if (type === 'TOOL_RESULT') return `a result of the tool ${name}`
  const [sender, space] = [payload.senderName, payload.spaceName].map((text) => JSON.stringify(oneLine(text ?? '')))
  return `a message from ${sender} (${(payload.senderKind ?? 'HUMAN').toLowerCase()}) in ${space} (id: ${payload.spaceId})`
}

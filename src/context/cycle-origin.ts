import type { InboxEvent } from '../generated/prisma/client.ts'
import type { MessageOrigin } from '../rules/message.ts'

/** The fields of an inbox event that describe its source. */
export type EventSource = Pick<InboxEvent, 'type' | 'spaceId' | 'payload'>

/**
 * Returns the origin of a message that a think cycle posts in a space; null if an event came from that space. The
 * origin has the fields on which all events of the cycle agree. Its type is INBOX if the types of the events differ.
 */
export function originOfEvents(events: EventSource[], spaceId: string): MessageOrigin | null {
  if (events.some((event) => event.spaceId === spaceId)) return null
  const origins = events.map(originOfEvent)
  const agreed = <K extends keyof MessageOrigin>(key: K): MessageOrigin[K] | null => {
    const [value = null, ...others] = new Set(origins.map((origin) => origin[key]))
    return others.length === 0 ? value : null
  }
  const triggerSpaceId = agreed('triggerSpaceId')
  // Names and texts may be shown only to members of the same space.
  const ofSpace = <K extends keyof MessageOrigin>(key: K) => (triggerSpaceId === null ? null : agreed(key))
  return {
    triggerType: agreed('triggerType') ?? 'INBOX',
    triggerName: agreed('triggerName'),
    triggerSpaceId,
    triggerSpaceName: ofSpace('triggerSpaceName'),
    triggerSenderName: ofSpace('triggerSenderName'),
    triggerMessage: ofSpace('triggerMessage'),
  }
}

function originOfEvent({ type, spaceId, payload }: EventSource): MessageOrigin {
  const told = payload as Record<string, unknown> | null
  const text = (field: string) => (typeof told?.[field] === 'string' ? (told[field] as string) : null)
  const isMessage = type === 'SPACE_MESSAGE'
  return {
    triggerType: type === 'TOOL_RESULT' ? 'INBOX' : type,
    triggerName: isMessage ? null : text('name'),
    triggerSpaceId: isMessage ? spaceId : null,
    triggerSpaceName: isMessage ? text('spaceName') : null,
    triggerSenderName: isMessage ? text('senderName') : null,
    triggerMessage: isMessage ? text('content') : null,
  }
}

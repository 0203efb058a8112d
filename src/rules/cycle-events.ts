import { RULES } from '../confidentiality/rules.ts'

/** A waiting inbox event that a think cycle can claim. */
export interface ClaimableEvent {
  payload: unknown
  /** Whether the event must be the only one in its cycle. */
  alone: boolean
  /** The event's current confidentiality label. */
  labelNow: string[]
}

/**
 * Returns the first events that may share a cycle. They have the same label, and none of them must be alone. Their
 * content has at most `mostCharacters` in total, unless the first event alone exceeds this limit.
 */
export function shareableEvents<Event extends ClaimableEvent>(events: Event[], mostCharacters: number): Event[] {
  const [first] = events
  if (first === undefined) return []
  if (first.alone) return [first]
  let characters = 0
  const end = events.findIndex((event, index) => {
    characters += JSON.stringify(event.payload).length
    return (
      event.alone || (index > 0 && characters > mostCharacters) || !RULES.belongTogether(event.labelNow, first.labelNow)
    )
  })
  return end === -1 ? events : events.slice(0, end)
}

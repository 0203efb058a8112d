import { RULES } from '../confidentiality/rules.ts'

/** A waiting inbox event that a think cycle may claim. */
export interface ClaimableEvent {
  payload: unknown
  /** Whether the event must be the only one in its cycle. */
  alone: boolean
  /** The confidential spaces from which the event comes. */
  labelNow: string[]
}

/**
 * Returns the first events that may be in the same cycle: all have the same label, none must be alone, and together
 * they have at most `mostCharacters` of content unless the first event alone has more.
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

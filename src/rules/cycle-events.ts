import { RULES } from '../confidentiality/rules.ts'

/** A waiting inbox event as a think cycle may claim it. */
export interface ClaimableEvent {
  payload: unknown
  /** The event must be alone in its cycle. */
  alone: boolean
  /** The confidential spaces from which the event comes. */
  labelNow: string[]
}

/**
 * Returns the events from the first on that may share a cycle: those with one label, none that must be alone, and at
 * most `mostCharacters` of content unless the first event alone has more.
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

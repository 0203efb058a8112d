import { type Presence, presenceOf } from '../rules/presence.ts'

/** A human who has an open connection to a process, or had one at the last sweep. */
interface Person {
  /** The ids of the processes to which the human has an open connection. */
  at: Set<string>
  /** The time of the last activity, in ms of this process's monotonic clock. */
  activeAt: number
  /** The presence after the last change or sweep. */
  known: Presence
}

/**
 * The connected people of whom this process has been informed. Records the processes to which they are connected, their
 * last activity, and the spaces in which they are typing. All times are in ms of this process's monotonic clock.
 */
export class PresenceTable {
  readonly #people = new Map<string, Person>()
  /** The time until which a human is shown as typing, by human and space. */
  readonly #typing = new Map<string, Map<string, number>>()
  readonly #onChange: (humanId: string) => void

  /** @param onChange called with each human whose presence or typing may have changed */
  constructor(onChange: (humanId: string) => void) {
    this.#onChange = onChange
  }

  presenceOf(humanId: string, now: number): Presence {
    const person = this.#people.get(humanId)
    return person === undefined ? 'OFFLINE' : presenceOfPerson(person, now)
  }

  /** Records a connection to a process, with activity at `activeAt`. */
  connect(humanId: string, processId: string, { activeAt, now }: { activeAt: number; now: number }): void {
    const person = this.#people.get(humanId) ?? { at: new Set<string>(), activeAt, known: 'OFFLINE' as const }
    this.#people.set(humanId, person)
    person.at.add(processId)
    person.activeAt = Math.max(person.activeAt, activeAt)
    this.#check(humanId, person, now)
  }

  disconnect(humanId: string, processId: string, now: number): void {
    const person = this.#people.get(humanId)
    if (person === undefined || !person.at.delete(processId)) return
    this.#check(humanId, person, now)
  }

  /**
   * Records activity of a connected human.
   * @returns the time since the previous activity, in ms; null if the human is not connected
   */
  noteActive(humanId: string, { activeAt, now }: { activeAt: number; now: number }): number | null {
    const person = this.#people.get(humanId)
    if (person === undefined) return null
    const idleMs = activeAt - person.activeAt
    person.activeAt = Math.max(person.activeAt, activeAt)
    this.#check(humanId, person, now)
    return idleMs
  }

  /** Returns how long a human has been inactive, in ms. */
  idleMs(humanId: string, now: number): number {
    return now - (this.#people.get(humanId)?.activeAt ?? now)
  }

  /** Shows a human as typing in a space until this time. A time in the past ends the typing. */
  setTyping(humanId: string, spaceId: string, until: number, now: number): void {
    const spaces = this.#typing.get(humanId) ?? new Map<string, number>()
    if (until > now) spaces.set(spaceId, until)
    else spaces.delete(spaceId)
    if (spaces.size > 0) this.#typing.set(humanId, spaces)
    else this.#typing.delete(humanId)
    this.#onChange(humanId)
  }

  /** Returns the time until which a human is shown as typing in a space; undefined for a human who is not typing. */
  typingUntil(humanId: string, spaceId: string, now: number): number | undefined {
    const until = this.#typing.get(humanId)?.get(spaceId)
    return until !== undefined && until > now ? until : undefined
  }

  /** Returns the humans who are connected to a process. */
  *peopleOf(processId: string): Generator<string> {
    for (const [humanId, { at }] of this.#people) if (at.has(processId)) yield humanId
  }

  /** Replaces the state of a process. `people` maps the connected humans to the times of their last activity. */
  replaceProcess(processId: string, people: ReadonlyMap<string, number>, now: number): void {
    for (const humanId of [...this.peopleOf(processId)])
      if (!people.has(humanId)) this.disconnect(humanId, processId, now)
    for (const [humanId, activeAt] of people) this.connect(humanId, processId, { activeAt, now })
  }

  /** Detects people who have become AWAY. Removes people who have disconnected, and typing that has ended. */
  sweep(now: number): void {
    for (const [humanId, person] of this.#people) this.#check(humanId, person, now)
    for (const [humanId, spaces] of this.#typing) {
      for (const [spaceId, until] of spaces) if (until <= now) spaces.delete(spaceId)
      if (spaces.size === 0) this.#typing.delete(humanId)
    }
  }

  get size(): number {
    return this.#people.size
  }

  #check(humanId: string, person: Person, now: number): void {
    const presence = presenceOfPerson(person, now)
    if (presence === 'OFFLINE') this.#people.delete(humanId)
    if (presence === person.known) return
    person.known = presence
    this.#onChange(humanId)
  }
}

const presenceOfPerson = ({ at, activeAt }: Person, now: number) =>
  presenceOf({ isConnected: at.size > 0, idleMs: now - activeAt })

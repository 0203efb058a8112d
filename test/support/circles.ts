/**
 * The seeds' cross-space examples are played in each: in open spaces that have their own people, and in confidential ones that have the
 * same people.
 */
export interface Circle {
  /** For the title of a test: `$circle`. */
  circle: string
  confidential: boolean
  /** Who is in a space that has people of its `own`, of `all` that the example has. */
  people<Person>(own: Person[], all: Person[]): Person[]
}

export const OPEN: Circle = { circle: 'open spaces', confidential: false, people: (own) => own }
const CONFIDENTIAL: Circle = {
  circle: 'confidential spaces of the same people',
  confidential: true,
  people: (_, all) => all,
}

export const CIRCLES = [OPEN, CONFIDENTIAL]

/**
 * The cross-space examples of the requirements run in each of these circles: in open spaces with different people, and in
 * confidential spaces with the same people.
 */
export interface Circle {
  /** The name of the circle in the titles of tests: `$circle`. */
  circle: string
  confidential: boolean
  /** Returns the members of a space: its `own` people, or `all` people of the example. */
  people<Person>(own: Person[], all: Person[]): Person[]
}

export const OPEN: Circle = { circle: 'open spaces', confidential: false, people: (own) => own }
const CONFIDENTIAL: Circle = {
  circle: 'confidential spaces of the same people',
  confidential: true,
  people: (_, all) => all,
}

export const CIRCLES = [OPEN, CONFIDENTIAL]

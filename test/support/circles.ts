/**
 * The cross-space examples of the requirements run in each circle: in open spaces with different people, and in
 * confidential ones with the same people.
 */
export interface Circle {
  /** For the title of a test: `$circle`. */
  circle: string
  confidential: boolean
  /** The members of a space with its `own` people, out of `all` people of the example. */
  people<Person>(own: Person[], all: Person[]): Person[]
}

export const OPEN: Circle = { circle: 'open spaces', confidential: false, people: (own) => own }
const CONFIDENTIAL: Circle = {
  circle: 'confidential spaces of the same people',
  confidential: true,
  people: (_, all) => all,
}

export const CIRCLES = [OPEN, CONFIDENTIAL]

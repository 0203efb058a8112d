import { Prisma } from '../generated/prisma/client.ts'

/**
 * Where something comes from, as its row keeps it: `places`, the spaces whose messages it was given directly; `label`, those of all that it
 * was shown, as far as they were confidential then. What counts of both are those that are confidential now.
 */
export interface Marks {
  places: string[]
  label: string[]
}

/** Marks, and the humans whom it is done for; none for an admin's plan and a service. */
export interface Provenance extends Marks {
  askers: string[]
}

export const UNMARKED: Provenance = { places: [], label: [], askers: [] }

/** All spaces that something may be confidential to. */
export function marksOf({ places, label }: Marks): string[] {
  return union(places, label)
}

/** Each once, in order. */
export function union(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort()
}

/** Of several together. */
export function together(all: readonly Provenance[]): Provenance {
  return { ...marksTogether(all), askers: union(...all.map(({ askers }) => askers)) }
}

/** The same without whom it is done for. */
export function marksTogether(all: readonly Marks[]): Marks {
  return { places: union(...all.map(({ places }) => places)), label: union(...all.map(({ label }) => label)) }
}

/** Who carries marks takes more: a run in hand, by what it is given and shown. */
export function take(carrier: Marks, { places = [], label = [] }: Partial<Marks>): void {
  carrier.places = union(carrier.places, places)
  carrier.label = union(carrier.label, label)
}

/** The marks in an UPDATE of their row. */
export function setsOf({ places, label }: Marks): Prisma.Sql {
  return Prisma.sql`places = ${places}::text[], label = ${label}::text[]`
}

/** The same of a run in hand, whose label takes those of its places that have become confidential meanwhile. */
export function setsNow({ places, label }: Marks): Prisma.Sql {
  return Prisma.sql`places = ${places}::text[], label = ${labelNow(Prisma.sql`${places}::text[]`, Prisma.sql`${label}::text[]`)}`
}

/** A row's own label takes those of its places that have become confidential meanwhile. */
export const LABEL_NOW = Prisma.sql`label = ${labelNow(Prisma.sql`places`, Prisma.sql`label`)}`

function labelNow(places: Prisma.Sql, label: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`ARRAY(SELECT DISTINCT unnest(${label} || ${confidentialAmong(places)}) ORDER BY 1)`
}

/** The label that rows have by their marks now, and that of a run which carries these. Of both there is an order: they can be compared. */
const LABEL_OF_ROW = confidentialAmong(Prisma.sql`places || label`)
const labelOfCarrier = (marks: Marks) => confidentialAmong(Prisma.sql`${marksOf(marks)}::text[]`)

/** A condition on a row: a run that carries these marks is, or may be, shown it; what it is not shown does not exist for it. */
export const isKnownTo = (marks: Marks) => Prisma.sql`(${LABEL_OF_ROW}) <@ (${labelOfCarrier(marks)})`
/** A condition on a row: it is what such a run would write. */
export const isOfLabel = (marks: Marks) => Prisma.sql`(${LABEL_OF_ROW}) = (${labelOfCarrier(marks)})`

/** Those of an array of spaces that are confidential now: an expression that costs nothing where there is no confidential space at all. */
export function confidentialAmong(spaceIds: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`CASE WHEN EXISTS (SELECT 1 FROM "Space" WHERE confidential)
    THEN ARRAY(SELECT s.id FROM "Space" s WHERE s.confidential AND s.id = ANY(${spaceIds}) ORDER BY s.id) ELSE '{}'::text[] END`
}

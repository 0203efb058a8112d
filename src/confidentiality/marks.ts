import { Prisma } from '../generated/prisma/client.ts'

/**
 * The sources of a row. `places` are the spaces whose messages were direct input. `label` contains the source spaces of
 * all input that were confidential at that time. Only spaces that are currently confidential have an effect.
 */
export interface Marks {
  readonly places: readonly string[]
  readonly label: readonly string[]
}

/**
 * Marks, together with the requesters: the humans on whose behalf the work is done. An admin's plan and a service have
 * no requesters.
 */
export interface Provenance extends Marks {
  readonly askers: readonly string[]
}

export const UNMARKED: Provenance = { places: [], label: [], askers: [] }

/** Returns all spaces from which the content may come. */
export function marksOf({ places, label }: Marks): string[] {
  return union(places, label)
}

/** Returns the union of the lists in their order, without duplicates. */
export function union(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort()
}

/** Returns the combined provenance of several sources. */
export function together(all: readonly Provenance[]) {
  return { ...marksTogether(all), askers: union(...all.map(({ askers }) => askers)) }
}

/** Returns the combined marks of several sources, without requesters. */
export function marksTogether(all: readonly Marks[]) {
  return { places: union(...all.map(({ places }) => places)), label: union(...all.map(({ label }) => label)) }
}

/** Returns the assignments of an UPDATE that write the marks to their row. */
export function setsOf({ places, label }: Marks): Prisma.Sql {
  return Prisma.sql`places = ${places}::text[], label = ${label}::text[]`
}

/** Like `setsOf`, but also adds the places that are now confidential to the label. */
export function setsNow({ places, label }: Marks): Prisma.Sql {
  return Prisma.sql`places = ${places}::text[], label = ${labelNow(Prisma.sql`${places}::text[]`, Prisma.sql`${label}::text[]`)}`
}

/** An assignment for a row. It adds the places that are now confidential to the label. */
export const LABEL_NOW = Prisma.sql`label = ${labelNow(Prisma.sql`places`, Prisma.sql`label`)}`

function labelNow(places: Prisma.Sql, label: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`ARRAY(SELECT DISTINCT unnest(${label} || ${confidentialAmong(places)}) ORDER BY 1)`
}

/**
 * SQL for the current label of a row. The next function returns the current label of a run. Both labels are sorted, so
 * that they can be compared.
 */
const LABEL_OF_ROW = confidentialAmong(Prisma.sql`places || label`)
const labelOfCarrier = (marks: Marks) => confidentialAmong(Prisma.sql`${marksOf(marks)}::text[]`)

/** Condition on a row: a run with these marks may read the row. All other rows are treated as if they did not exist. */
export const isKnownTo = (marks: Marks) => Prisma.sql`(${LABEL_OF_ROW}) <@ (${labelOfCarrier(marks)})`
/** Condition on a row: the row has the same label as a row that a run with these marks would write. */
export const isOfLabel = (marks: Marks) => Prisma.sql`(${LABEL_OF_ROW}) = (${labelOfCarrier(marks)})`

/**
 * Returns SQL for those spaces in an array that are currently confidential. The SQL takes almost no time if no space is
 * confidential.
 */
export function confidentialAmong(spaceIds: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`CASE WHEN EXISTS (SELECT 1 FROM "Space" WHERE confidential)
    THEN ARRAY(SELECT s.id FROM "Space" s WHERE s.confidential AND s.id = ANY(${spaceIds}) ORDER BY s.id) ELSE '{}'::text[] END`
}

import { Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'

interface InsertionOptions {
  /** Computed columns. In their SQL, `r` is the given row and `e` is the same row as JSON. */
  computed?: Record<string, Prisma.Sql>
  /** Fields of the given rows that only computed columns use. They are not columns of the table. */
  beside?: readonly string[]
  /**
   * The name of another statement in the same WITH clause. The rows are inserted once for each row that this statement
   * returns.
   */
  from?: string
}

/**
 * Returns a statement that inserts rows in the given order. Each row is an object with a property per column. A column
 * that is missing from all objects gets its default, and null is inserted as NULL. Skips rows whose key already exists.
 * The statement returns the inserted rows.
 */
export function insertionOf(
  table: Prisma.ModelName,
  rows: readonly object[],
  { computed = {}, beside = [], from }: InsertionOptions = {},
): Prisma.Sql {
  const isPlain = (column: string) => !(column in computed) && !beside.includes(column)
  const plain = [...new Set(rows.flatMap(Object.keys))].filter(isPlain)
  const columns = [...plain, ...Object.keys(computed)].map(quoted)
  const values = [...plain.map((column) => Prisma.sql`r.${quoted(column)}`), ...Object.values(computed)]
  const name = quoted(table)
  return Prisma.sql`
    INSERT INTO ${name} (${Prisma.join(columns)}) SELECT ${Prisma.join(values)}
    FROM jsonb_array_elements(${jsonbText(rows)}::jsonb) WITH ORDINALITY AS given(e, n)
      CROSS JOIN LATERAL jsonb_populate_record(null::${name}, given.e) AS r
      ${from === undefined ? Prisma.empty : Prisma.sql`CROSS JOIN ${quoted(from)}`}
    ORDER BY given.n ON CONFLICT DO NOTHING RETURNING *`
}

const quoted = (name: string) => Prisma.raw(`"${name}"`)

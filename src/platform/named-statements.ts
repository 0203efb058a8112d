import { createHash } from 'node:crypto'
import { type PGlite, parse, protocol } from '@electric-sql/pglite'
import type pg from 'pg'

const LARGEST_STATEMENT_CACHE = 500

/**
 * Gives names to prepared statements, so that PostgreSQL keeps their plans. Beyond a limit, further statements stay
 * unnamed.
 */
export interface StatementNames {
  /** Returns the name; undefined for a statement that stays unnamed. */
  of(statement: { sql: string }): string | undefined
  /** Changes all names, so that every statement is prepared again on each connection. */
  renew(): void
}

/** Gives no names, so that all statements stay unnamed. */
export const NO_NAMES: StatementNames = { of: () => undefined, renew() {} }

export function createStatementNames(): StatementNames {
  const names = new Map<string, string>()
  let generation = 0
  return {
    of({ sql }) {
      const known = names.get(sql)
      if (known !== undefined || names.size >= LARGEST_STATEMENT_CACHE) return known
      const name = `p${generation}_${createHash('sha1').update(sql).digest('base64url')}`
      names.set(sql, name)
      return name
    },
    renew() {
      generation += 1
      names.clear()
    },
  }
}

/**
 * Gives names to long, constant statements, also to those of pg-boss, so that PostgreSQL plans each of them only once
 * per connection.
 */
export function createNamedQueries(pool: pg.Pool, names: StatementNames) {
  return <Row extends object = object>(text: string, values?: unknown[]): Promise<pg.QueryResult<Row>> =>
    // A text with several statements has no parameters and cannot be prepared.
    values === undefined || values.length === 0
      ? pool.query<Row>(text)
      : pool.query<Row>({ text, values, name: names.of({ sql: text }) as string })
}

const { serialize } = protocol

/**
 * Does the same as `createNamedQueries` for PGlite. PGlite's own `query` parses and plans a statement each time, which
 * is almost the entire cost of a long statement. Executes one statement at a time, and never within another caller's
 * transaction.
 * @throws PostgreSQL's error, with the SQLSTATE as `code`
 */
export function createEmbeddedQueries(pglite: PGlite) {
  const names = createStatementNames()
  /** The parameter types of each prepared statement. */
  const prepared = new Map<string, number[]>()

  async function prepare(name: string | undefined, text: string): Promise<number[]> {
    const known = name === undefined ? undefined : prepared.get(name)
    if (known !== undefined) return known
    const naming = name === undefined ? {} : { name }
    const types = parse.parseDescribeStatementResults(
      await send(pglite, serialize.parse({ text, ...naming }), serialize.describe({ type: 'S', ...naming })),
    )
    if (name !== undefined) prepared.set(name, types)
    return types
  }

  return async <Row extends object>(text: string, values: readonly unknown[]): Promise<Row[]> => {
    await pglite._checkReady()
    return pglite._runExclusiveTransaction(() =>
      pglite._runExclusiveQuery(async () => {
        const name = names.of({ sql: text })
        const types = await prepare(name, text)
        const written = values.map((value, index) => textOf(pglite, value, types[index]))
        const messages = await send(
          pglite,
          serialize.bind({ values: written, ...(name === undefined ? {} : { statement: name }) }),
          serialize.describe({ type: 'P' }),
          serialize.execute({}),
        )
        return parse.parseResults(messages, pglite.parsers)[0]?.rows as Row[]
      }),
    )
  }
}

/** Sends protocol messages followed by a Sync, which also ends a failed statement. */
function send(pglite: PGlite, ...messages: Uint8Array[]) {
  return pglite.execProtocolStream(Buffer.concat([...messages, serialize.sync()]))
}

/** Returns a parameter in PostgreSQL's text format for the parameter's type. */
function textOf(pglite: PGlite, value: unknown, type: number | undefined): string | null {
  if (value === null || value === undefined) return null
  const written = type === undefined ? undefined : pglite.serializers[type]?.(value)
  return written ?? String(value)
}

import { createHash } from 'node:crypto'
import { type PGlite, parse, protocol } from '@electric-sql/pglite'
import type pg from 'pg'

const LARGEST_STATEMENT_CACHE = 500

/** What statements are called, so that PostgreSQL keeps their plans; past a number of different ones, later ones go unnamed. */
export interface StatementNames {
  of(statement: { sql: string }): string
  /** Other names from now on: on each connection every statement is prepared anew. */
  renew(): void
}

export function createStatementNames(): StatementNames {
  const names = new Map<string, string>()
  let generation = 0
  return {
    of({ sql }) {
      const known = names.get(sql)
      if (known !== undefined || names.size >= LARGEST_STATEMENT_CACHE) return known as string
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

/** Runs statements that are long and always the same, pg-boss's among them: PostgreSQL plans each once a connection. */
export function createNamedQueries(pool: pg.Pool, names: StatementNames) {
  return <Row extends object = object>(text: string, values?: unknown[]): Promise<pg.QueryResult<Row>> =>
    // Several statements in one text come without values, and cannot be prepared.
    values === undefined || values.length === 0
      ? pool.query<Row>(text)
      : pool.query<Row>({ text, values, name: names.of({ sql: text }) })
}

const { serialize } = protocol

/**
 * The same on PGlite, whose own `query` parses and plans each time: of a long statement that is nearly all it costs.
 * One statement at a time, and none inside somebody's transaction.
 * @throws what PostgreSQL refuses, with its SQLSTATE as `code`
 */
export function createEmbeddedQueries(pglite: PGlite) {
  const names = createStatementNames()
  /** Of each statement that is prepared: the types of its parameters. */
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

/** Sends messages of PostgreSQL's protocol in one go, with the Sync that ends what they began, whether it failed or not. */
function send(pglite: PGlite, ...messages: Uint8Array[]) {
  return pglite.execProtocolStream(Buffer.concat([...messages, serialize.sync()]))
}

/** A parameter as PostgreSQL reads its type. */
function textOf(pglite: PGlite, value: unknown, type: number | undefined): string | null {
  if (value === null || value === undefined) return null
  const written = type === undefined ? undefined : pglite.serializers[type]?.(value)
  return written ?? String(value)
}

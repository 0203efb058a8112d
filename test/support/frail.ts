import { Redis } from 'ioredis'
import pg from 'pg'
import { createDeferred } from '../../src/lib/async.ts'

/** A statement of the application under test, before it is sent. */
export interface Statement {
  /** The position of the statement since `watch`, counted from 1. */
  n: number
  text: string
  /** Whether a transaction is open on the connection, or the statement begins or ends one. */
  isInTransaction: boolean
}

/** The outcome that the test has chosen for the statement. */
export type Fate =
  | { type: 'passes' }
  /** PostgreSQL executes it, and the process dies before the response. */
  | { type: 'dies' }
  /** PostgreSQL raises this SQLSTATE instead. */
  | { type: 'fails'; code: string }
  /** PostgreSQL executes it, and its response is delayed until this resolves. */
  | { type: 'held'; until: Promise<unknown> }

/**
 * Controls the connections of one application in this process. Through it, a test can break the application at a chosen
 * statement, as if the process had died. A dead application has no connections, sends nothing more to PostgreSQL or Redis, and
 * its pending calls never resolve.
 */
export interface Frailty {
  /** The application_name of the connections. */
  name: string
  /** Marks the connections of this application, by replacing the URLs in its settings. */
  mark(settings: Record<string, string>): Record<string, string>
  /** The statements since `watch`, in the order of sending. */
  statements: Statement[]
  /** Restarts the count of statements. `fateOf` decides what happens to each statement before it is sent. */
  watch(fateOf: (statement: Statement) => Fate): void
  isDead(): boolean
  /** Resolves when the application has died. */
  death: Promise<void>
}

export const PASSES: Fate = { type: 'passes' }
const NEVER = new Promise<never>(() => {})

/** The internal state of a frailty. */
interface Body {
  fateOf(text: string, isInTransaction: boolean): Fate
  clients: Set<pg.Client>
  redises: Set<Redis>
  isDead: boolean
  die(): void
}

const bodies = new Map<string, Body>()

export function createFrailty(): Frailty {
  install()
  const name = `frail-${bodies.size + 1}`
  const death = createDeferred()
  const statements: Statement[] = []
  let decide: (statement: Statement) => Fate = () => PASSES
  const body: Body = {
    clients: new Set(),
    redises: new Set(),
    isDead: false,
    fateOf(text, isInTransaction) {
      const statement = { n: statements.length + 1, text, isInTransaction }
      statements.push(statement)
      return decide(statement)
    },
    die() {
      body.isDead = true
      for (const client of body.clients) internalsOf(client).connection.stream.destroy()
      for (const redis of body.redises) redis.disconnect()
      death.resolve()
    },
  }
  bodies.set(name, body)
  return {
    name,
    mark: ({ DATABASE_URL = '', REDIS_URL = '' }) => ({
      DATABASE_URL: `${DATABASE_URL}?application_name=${name}`,
      // A server without a password accepts any password.
      REDIS_URL: REDIS_URL.replace('://', `://default:${name}@`),
    }),
    statements,
    watch(fateOf) {
      statements.length = 0
      decide = fateOf
    },
    isDead: () => body.isDead,
    death: death.promise,
  }
}

/** Fields that are missing in the types of `pg`. */
interface Internals {
  connection: { stream: { destroy(): void } }
  connectionParameters: pg.ClientConfig
  /** A field that this file adds: whether a transaction is open. */
  isInTransaction?: boolean
}

const internalsOf = (client: pg.Client) => client as unknown as Internals
const bodyOf = (client: pg.Client) => bodies.get(internalsOf(client).connectionParameters.application_name ?? '')

type Callback = (error: Error | null, result?: unknown) => void
let isInstalled = false

/** Patches the drivers, only once. */
function install(): void {
  if (isInstalled) return
  isInstalled = true
  // biome-ignore-start lint/suspicious/noExplicitAny: each is one function with several signatures
  const connect = pg.Client.prototype.connect as any
  const send = pg.Client.prototype.query as any
  // biome-ignore-end lint/suspicious/noExplicitAny: each is one function with several signatures
  pg.Client.prototype.connect = function open(this: pg.Client, ...rest: unknown[]) {
    const body = bodyOf(this)
    if (body?.isDead === true) return NEVER
    body?.clients.add(this)
    this.once('end', () => body?.clients.delete(this))
    return connect.apply(this, rest)
  } as typeof pg.Client.prototype.connect
  pg.Client.prototype.query = function query(this: pg.Client, config: string | pg.QueryConfig, ...rest: unknown[]) {
    const body = bodyOf(this)
    if (body === undefined) return send.call(this, config, ...rest)
    const callback = rest.find((argument): argument is Callback => typeof argument === 'function')
    const values = Array.isArray(rest[0]) ? [rest[0]] : []
    const answer = carryOut(body, this, config, (instead) => send.call(this, ...(instead ?? [config, ...values])))
    if (callback === undefined) return answer
    answer.then(
      (result) => callback(null, result),
      (error) => callback(error),
    )
    return undefined
  } as typeof pg.Client.prototype.query
  const command = Redis.prototype.sendCommand
  Redis.prototype.sendCommand = function sendCommand(...args) {
    const body = bodies.get(this.options.password ?? '')
    body?.redises.add(this)
    return body?.isDead === true ? NEVER : command.apply(this, args)
  }
}

async function carryOut(
  body: Body,
  client: pg.Client,
  config: string | pg.QueryConfig,
  send: (instead?: [string]) => Promise<unknown>,
): Promise<unknown> {
  if (body.isDead) return NEVER
  const text = typeof config === 'string' ? config : config.text
  const connection = internalsOf(client)
  const begins = /^BEGIN/i.test(text)
  const fate = body.fateOf(text, begins || connection.isInTransaction === true)
  if (begins) connection.isInTransaction = true
  if (/^(COMMIT|ROLLBACK)/i.test(text)) connection.isInTransaction = false
  const fault = (code: string) => `DO $$ BEGIN RAISE EXCEPTION 'a fault of the test' USING ERRCODE = '${code}'; END $$`
  const answer = fate.type === 'fails' ? send([fault(fate.code)]) : send()
  if (fate.type === 'held') await Promise.allSettled([answer, fate.until])
  try {
    return await answer
  } finally {
    if (fate.type === 'dies') body.die()
    if (body.isDead) await NEVER
  }
}

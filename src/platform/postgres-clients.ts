import pg from 'pg'

// Clients of `pg` with additional behavior.

/** The methods of a query that `pg` calls but does not declare in its types. */
interface QueryInternals {
  text: string
  requiresPreparation(): boolean
  prepare(connection: ConnectionInternals): void
  handleDataRow(message: unknown): void
  handleRowDescription(message: unknown): void
  handleCommandComplete(message: unknown, connection: ConnectionInternals): void
}

interface ConnectionInternals {
  stream: { cork(): void; uncork(): void }
  parse(statement: { text: string; name?: string }): void
  bind(portal: object): void
  execute(portal: object): void
  query(text: string): void
}

const WithStartup = pg.Client as unknown as new (
  config?: string | pg.ClientConfig,
) => pg.Client & { getStartupConf(): Record<string, string> }

const Query = pg.Query as unknown as new (config: unknown, values?: unknown, callback?: unknown) => QueryInternals

/**
 * Statements that refuse to run in a transaction. They need no search path, because pg-boss qualifies all names in
 * them with its schema.
 */
const OUTSIDE_TRANSACTIONS = /\b(CONCURRENTLY|VACUUM)\b/

/**
 * Creates a client class for connections through a transaction pooler, which may execute each transaction in a
 * different session. Each transaction sets the settings for itself, in the same message as its first statement, so
 * this costs no round trip.
 */
export function createLocalClient(settings: Readonly<Record<string, string>>): typeof pg.Client {
  const calls = Object.entries(settings).map(([name, value]) => `set_config(${literal(name)}, ${literal(value)}, true)`)
  const settingsSql = `SELECT ${calls.join(', ')}`

  class LocalQuery extends Query {
    #client: pg.Client
    /** Whether the incoming results belong to the statements that set the settings. */
    #isSetting = false

    constructor(client: pg.Client, config: unknown, values: unknown, callback: unknown) {
      super(config, values, callback)
      this.#client = client
    }

    /** Sends the query, as in `pg`. Returns an error instead of throwing. */
    submit(connection: ConnectionInternals): Error | null {
      this.#isSetting = this.#client.getTransactionStatus() === 'I' && !OUTSIDE_TRANSACTIONS.test(this.text)
      if (!this.requiresPreparation()) {
        // One message with several statements is one transaction, which a BEGIN among the statements continues.
        connection.query(this.#isSetting ? `${settingsSql}; ${this.text}` : this.text)
        return null
      }
      connection.stream.cork()
      try {
        if (this.#isSetting) {
          // All messages up to the query's Sync are one transaction.
          connection.parse({ text: settingsSql })
          connection.bind({})
          connection.execute({})
        }
        this.prepare(connection)
      } finally {
        connection.stream.uncork()
      }
      return null
    }

    override handleRowDescription(message: unknown): void {
      if (!this.#isSetting) super.handleRowDescription(message)
    }

    override handleDataRow(message: unknown): void {
      if (!this.#isSetting) super.handleDataRow(message)
    }

    override handleCommandComplete(message: unknown, connection: ConnectionInternals): void {
      if (this.#isSetting) this.#isSetting = false
      else super.handleCommandComplete(message, connection)
    }
  }

  class LocalClient extends WithStartup {
    /**
     * Removes `options` if they are empty, because poolers refuse them. They are not empty only if a proxy reads
     * them.
     */
    override getStartupConf(): Record<string, string> {
      const { options = '', ...others } = super.getStartupConf()
      return options.trim() === '' ? others : { ...others, options }
    }

    // biome-ignore lint/suspicious/noExplicitAny: one function with several signatures
    override query(config: any, values?: any, callback?: any): any {
      if (typeof config?.submit === 'function') return super.query(config, values, callback)
      if (typeof values === 'function') return this.query(config, undefined, values)
      if (callback !== undefined) return super.query(new LocalQuery(this, config, values, callback) as never)
      return new Promise((resolve, reject) => {
        const settle = (error: Error | null, result: unknown) => (error ? reject(error) : resolve(result))
        super.query(new LocalQuery(this, config, values, settle) as never)
      })
    }
  }
  return LocalClient as unknown as typeof pg.Client
}

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/**
 * Creates a client class that refuses servers which do not bind the authentication to the TLS channel
 * (`channel_binding=require`).
 */
export function channelBound(Client: typeof pg.Client): typeof pg.Client {
  return class extends Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config)
      const { connection } = this as unknown as { connection: NodeJS.EventEmitter }
      let isBound = false
      const refuse = () => connection.emit('error', new Error('the server does not support channel binding'))
      connection.prependListener('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
        isBound = mechanisms.includes('SCRAM-SHA-256-PLUS')
        if (!isBound) refuse()
      })
      connection.prependListener('authenticationOk', () => {
        if (!isBound) refuse()
      })
    }
  }
}

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
 * Statements that cannot run in a transaction. They need no search path, because pg-boss qualifies all names in them
 * with its schema.
 */
const OUTSIDE_TRANSACTIONS = /\b(CONCURRENTLY|VACUUM)\b/

/**
 * Creates a client class for connections through a transaction pooler, which can execute each transaction in a
 * different session. So each transaction applies the settings again. The settings are sent with its first statement,
 * without an additional round trip.
 */
export function createLocalClient(settings: Readonly<Record<string, string>>): typeof pg.Client {
  const calls = Object.entries(settings).map(([name, value]) => `set_config(${literal(name)}, ${literal(value)}, true)`)
  const settingsSql = `SELECT ${calls.join(', ')}`

  class LocalQuery extends Query {
    #client: pg.Client
    /** Whether the next results belong to the statements that apply the settings. */
    #isSetting = false

    constructor(client: pg.Client, config: unknown, values: unknown, callback: unknown) {
      super(config, values, callback)
      this.#client = client
    }

    /** Sends the query like the method of `pg`. Returns an error instead of throwing it. */
    submit(connection: ConnectionInternals): Error | null {
      this.#isSetting = this.#client.getTransactionStatus() === 'I' && !OUTSIDE_TRANSACTIONS.test(this.text)
      if (!this.requiresPreparation()) {
        // PostgreSQL executes a message with several statements as one transaction. A BEGIN among the statements
        // continues that transaction.
        connection.query(this.#isSetting ? `${settingsSql}; ${this.text}` : this.text)
        return null
      }
      connection.stream.cork()
      try {
        if (this.#isSetting) {
          // All messages before the query's Sync belong to one transaction.
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
     * Removes `options` if this parameter is empty, because poolers refuse it. It has a value only if a proxy needs
     * one.
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
 * Creates a client class that refuses servers that do not bind the authentication to the TLS channel
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

import { flushCompileCache } from 'node:module'
import { type Application, createApp } from '../app.ts'
import { type Config, ConfigError, readConfig } from '../config.ts'
import { messageOf } from '../lib/errors.ts'
import { isLoopback } from '../lib/loopback.ts'
import { giveBackMemory } from '../platform/memory.ts'
import { checkAddress } from '../server/http/listening.ts'
import { type RunningServer, startServer } from '../server/server.ts'
import { surviveRejections } from './rejections.ts'
import { shutDown } from './shutdown.ts'

/** How long active runs may take to finish before the process releases them. */
const DRAIN_MS = 20_000

/** Prints why the server could not start, and exits. */
function refuse(error: unknown): never {
  process.stderr.write(`${error instanceof ConfigError ? error.message : `Parley cannot start. ${messageOf(error)}`}\n`)
  process.exit(1)
}

/**
 * Prints the addresses, how to sign in, and the services in use. Prints the admin token if this start generated it, and
 * otherwise the place where it is stored.
 */
async function announce(config: Config, app: Application, server: RunningServer): Promise<void> {
  const { publicUrl } = app.platform
  const lines = [
    ...(config.role === 'worker'
      ? [`Parley worker is running at ${server.url} (role: worker)`]
      : [
          `Parley console  ${publicUrl.to('/')}`,
          ...(await signInLines(config, app)),
          `  graphql   ${publicUrl.to('/graphql')} (role: ${config.role})`,
        ]),
    ...(config.publicUrl === null ? [] : [`  listens   ${server.url}`]),
    `  database  ${config.databaseUrl === null ? `embedded PostgreSQL (PGlite) in ${config.dataDirectory}` : wayTo(app.platform.db)}`,
    `  realtime  ${config.redisUrl === null ? 'in this process' : 'Redis (REDIS_URL)'}`,
    `  model     ${await app.models.defaultModel()}, for agents created without one`,
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

function wayTo({ beside }: Application['platform']['db']): string {
  const pooler = beside?.isPooled ? ' through a transaction pooler' : ''
  const direct = beside?.isDirect ? ', and directly (PARLEY_DIRECT_DATABASE_URL)' : ''
  return `PostgreSQL (DATABASE_URL)${pooler}${direct}`
}

/**
 * Returns the lines about signing in. If the server has no people and listens only on this machine, they contain a
 * link. They also say where the admin token is and, if the server listens on other addresses, where to enter the token.
 */
async function signInLines(config: Config, { adminToken, startLink, platform }: Application): Promise<string[]> {
  const path = await startLink.create()
  const place = config.adminToken === null ? `${config.dataDirectory}/admin-token` : 'PARLEY_ADMIN_TOKEN'
  const token = adminToken.generated
    ? [`  token     ${adminToken.value}`, `            (created now, stored in ${place})`]
    : [`  token     in ${place}`]
  if (path !== null)
    return [
      `  sign in   ${platform.publicUrl.to(path)}`,
      '            (works once, within 15 minutes, as long as no person exists)',
      ...token,
    ]
  if (isLoopback(config.host)) return token
  return [
    `  sign in   open ${platform.publicUrl.to('/')} and sign in with the token in ${place}`,
    ...(adminToken.generated ? token : []),
  ]
}

/**
 * Two signals within this time are treated as one, because a process group gets one from the sender and another from
 * npm.
 */
const SAME_SIGNAL_MS = 500

/** The first signal makes the process finish its work. A second signal ends the process immediately. */
function drainOnSignal(app: Application, server: RunningServer): void {
  let drainingSince: number | null = null
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (drainingSince !== null && performance.now() - drainingSince < SAME_SIGNAL_MS) return
      if (drainingSince !== null) process.exit(1)
      drainingSince = performance.now()
      app.platform.logger.info({ signal }, 'the server is shutting down')
      shutDown(app, server, DRAIN_MS).then(
        () => process.exit(0),
        (error) => {
          process.stderr.write(`Parley could not shut down cleanly: ${messageOf(error)}\n`)
          process.exit(1)
        },
      )
    })
  }
}

async function main(): Promise<void> {
  const config = readConfig()
  const app = await createApp(config, { alsoCheck: () => checkAddress(config) })
  surviveRejections(app.platform.logger, app.platform.metrics)
  const server = await startServer({ app, config }).catch(async (error) => {
    await app.close(0)
    throw error
  })
  if (config.role !== 'api') await app.startWorker()
  drainOnSignal(app, server)
  if (config.databaseUrl === null) giveBackMemory()
  await announce(config, app, server)
  flushCompileCache()
}

main().catch(refuse)

import { flushCompileCache } from 'node:module'
import { type Application, createApp } from '../app.ts'
import { type Config, ConfigError, readConfig } from '../config.ts'
import { messageOf } from '../lib/errors.ts'
import { giveBackMemory } from '../platform/memory.ts'
import { checkAddress } from '../server/http/listening.ts'
import { type RunningServer, startServer } from '../server/server.ts'
import { surviveRejections } from './rejections.ts'
import { shutDown } from './shutdown.ts'

/** How long running work may take to finish before the process releases it. */
const DRAIN_MS = 20_000

/** Prints why the start failed, and exits. */
function refuse(error: unknown): never {
  process.stderr.write(`${error instanceof ConfigError ? error.message : `Parley cannot start. ${messageOf(error)}`}\n`)
  process.exit(1)
}

/** Prints the address and the services in use, and the admin token if this start created it. */
function announce(config: Config, app: Application, server: RunningServer): void {
  const lines = [
    `Parley serves ${server.url}/graphql (role: ${config.role})`,
    `  database  ${config.databaseUrl === null ? `embedded PostgreSQL (PGlite) in ${config.dataDirectory}` : 'PostgreSQL (DATABASE_URL)'}`,
    `  realtime  ${config.redisUrl === null ? 'in this process' : 'Redis (REDIS_URL)'}`,
    `  model     ${config.defaultModel}, for agents created without one`,
  ]
  if (app.adminToken.generated) {
    lines.push(
      `  admin     Authorization: Bearer ${app.adminToken.value}`,
      `            (created now, stored in ${config.dataDirectory}/admin-token)`,
    )
  }
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** Within this time two signals count as one: a process group gets one from the sender and one from npm. */
const SAME_SIGNAL_MS = 500

/** The first signal drains; a second one ends the process immediately. */
function drainOnSignal(app: Application, server: RunningServer): void {
  let drainingSince: number | null = null
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (drainingSince !== null && performance.now() - drainingSince < SAME_SIGNAL_MS) return
      if (drainingSince !== null) process.exit(1)
      drainingSince = performance.now()
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
  await checkAddress(config)
  const app = await createApp(config)
  surviveRejections(app.platform.logger, app.platform.metrics)
  const server = await startServer({ app, config }).catch(async (error) => {
    await app.close(0)
    throw error
  })
  app.setOrigin(server.url)
  if (config.role !== 'api') await app.startWorker()
  drainOnSignal(app, server)
  if (config.databaseUrl === null) giveBackMemory()
  announce(config, app, server)
  flushCompileCache()
}

main().catch(refuse)

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'
import { skipFor } from './skip-for.ts'

/** A Redis server of the test's own, which keeps nothing by itself; what `SAVE` wrote is there after a restart. */
export interface ThrowawayRedis {
  /** The same after a restart. */
  url: string
  port: number
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>
  /** SIGSTOP and SIGCONT: connections stand, and nothing answers. */
  freeze(): void
  thaw(): void
  /** Starts it again on the same port; resolves once it accepts connections. */
  start(): Promise<void>
  /** Kills it and removes its data. */
  dispose(): Promise<void>
}

/** The server's program, or null where there is none on the PATH. */
export function findRedisBinary(): string | null {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== '')
  const programs = folders.flatMap((folder) => ['redis-server', 'valkey-server'].map((name) => path.join(folder, name)))
  return programs.find((program) => existsSync(program)) ?? null
}

/** Whether a test can start a Redis server. Says so loudly where it cannot. @throws on a CI machine, where it must. */
export function canStartRedis(): boolean {
  if (findRedisBinary() !== null) return true
  skipFor('No program redis-server or valkey-server on the PATH')
  return false
}

async function launch(program: string, port: number, folder: string, options: string[]): Promise<ChildProcess> {
  const settings = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--save', '', '--appendonly', 'no']
  const server = spawn(program, [...settings, ...options], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  const log: string[] = []
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('exit', (code) => reject(new Error(`${program} ended with ${code}:\n${log.join('\n')}`)))
    createInterface({ input: server.stdout }).on('line', (line) => {
      if (log.length < 100) log.push(line)
      if (line.includes('Ready to accept connections')) resolve()
    })
  })
  return server
}

/**
 * Starts a server on a free port of the loopback interface. It ends with this process.
 * @throws where there is no program for it: ask `canStartRedis` first.
 */
export async function startThrowawayRedis(options: string[] = []): Promise<ThrowawayRedis> {
  const program = findRedisBinary()
  if (program === null) throw new Error('there is no Redis server on this machine')
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-redis-'))
  const port = await freePort()
  let server: ChildProcess | null = null
  const killWithUs = () => server?.kill('SIGKILL')
  const redis: ThrowawayRedis = {
    url: `redis://127.0.0.1:${port}`,
    port,
    async start() {
      server ??= await launch(program, port, folder, options)
    },
    async kill() {
      if (server === null) return
      const ended = once(server, 'exit')
      server.kill('SIGKILL')
      await ended
      server = null
    },
    freeze: () => void server?.kill('SIGSTOP'),
    thaw: () => void server?.kill('SIGCONT'),
    async dispose() {
      await redis.kill()
      process.off('exit', killWithUs)
      await rm(folder, { recursive: true, force: true })
    },
  }
  process.on('exit', killWithUs)
  await redis.start()
  return redis
}

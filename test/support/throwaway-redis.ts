import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'
import { skipFor } from './skip-for.ts'

/** A Redis server, or a Sentinel, for one test, without persistence. Data that `SAVE` has written survives a restart. */
export interface ThrowawayRedis {
  /** The URL, which stays the same after a restart. */
  url: string
  port: number
  /** Sends SIGKILL. Resolves once the server has ended. */
  kill(): Promise<void>
  /** Send SIGSTOP and SIGCONT. In between, connections stay open without responses. */
  freeze(): void
  thaw(): void
  /** Starts the server again on the same port. Resolves once it accepts connections. */
  start(): Promise<void>
  /** Kills the server, and removes its data. */
  dispose(): Promise<void>
}

/** Returns the program of the server; null if it is not on the PATH. */
export function findRedisBinary(): string | null {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== '')
  const programs = folders.flatMap((folder) => ['redis-server', 'valkey-server'].map((name) => path.join(folder, name)))
  return programs.find((program) => existsSync(program)) ?? null
}

/**
 * Returns whether a test can start a Redis server. If not, prints a clear warning. @throws on a CI machine, which must have
 * Redis
 */
export function canStartRedis(): boolean {
  if (findRedisBinary() !== null) return true
  skipFor('No program redis-server or valkey-server on the PATH')
  return false
}

async function launch(program: string, port: number, folder: string, options: string[]): Promise<ChildProcess> {
  const settings = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder]
  const server = spawn(program, [...options, ...settings], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  const log: string[] = []
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('exit', (code) => reject(new Error(`${program} ended with ${code}:\n${log.join('\n')}`)))
    createInterface({ input: server.stdout }).on('line', (line) => {
      if (log.length < 100) log.push(line)
      if (/Ready to accept connections|Sentinel ID is/.test(line)) resolve()
    })
  })
  return server
}

/**
 * Starts a server on a free port of the loopback interface. It ends together with this process. @throws if redis-server is not
 * installed: call `canStartRedis` first
 */
export async function startThrowawayRedis(
  options: string[] = [],
  mode: 'server' | 'sentinel' = 'server',
): Promise<ThrowawayRedis> {
  const program = findRedisBinary()
  if (program === null) throw new Error('there is no Redis server on this machine')
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-redis-'))
  const port = await freePort()
  // A Sentinel stores its state in its configuration file, so the file must exist.
  const configuration = path.join(folder, 'sentinel.conf')
  if (mode === 'sentinel') await writeFile(configuration, '')
  const own = mode === 'sentinel' ? [configuration, '--sentinel'] : ['--save', '', '--appendonly', 'no']
  let server: ChildProcess | null = null
  const killWithUs = () => server?.kill('SIGKILL')
  const redis: ThrowawayRedis = {
    url: `redis://127.0.0.1:${port}`,
    port,
    async start() {
      server ??= await launch(program, port, folder, [...own, ...options])
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

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { chown, rm } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { messageOf } from '../../src/lib/errors.ts'
import { freePort } from './free-port.ts'
import { makeScratchFolder } from './scratch.ts'
import { skipFor } from './skip-for.ts'

/** A PostgreSQL server for one test: the user is postgres, there is no password, and `dispose` removes everything. */
export interface ThrowawayPostgres {
  /** The URL of the database `postgres`, which stays the same after a restart. */
  url: string
  /**
   * Stops the server. Resolves once it has ended. `immediate` is a crash: connections break, and no checkpoint is written.
   * `fast` rolls back open transactions and shuts down in order.
   */
  stop(mode: 'immediate' | 'fast'): Promise<void>
  /** Starts the server again on the same port and data. Resolves once it accepts connections. */
  start(): Promise<void>
  /** Starts the server again as a standby without a primary server, which is read-only. */
  startAsStandby(): Promise<void>
  /** Stops the server, and removes its data. */
  dispose(): Promise<void>
}

/** Returns the folder of PostgreSQL's server binaries; null if there is none. */
export function findPostgresBinaries(): string | null {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [
    ...versions.map((version) => path.join(debian, version, 'bin')),
    ...(process.env.PATH ?? '').split(path.delimiter),
  ]
  const complete = (folder: string) => ['initdb', 'postgres'].every((name) => existsSync(path.join(folder, name)))
  return folders.find((folder) => folder !== '' && complete(folder)) ?? null
}

/** How to run PostgreSQL's programs as a user other than root, which they require. */
interface ServerUser {
  /** Goes before a program and its arguments. */
  prefix: string[]
  options: { uid?: number; gid?: number }
}

/** An id other than root's, in a separate user namespace. Outside of the namespace, this user is root. */
const AS_ANOTHER = ['unshare', '--user', '--map-user=1000', '--map-group=1000', '--']

/**
 * Root starts the server as the system user `postgres`, which then owns the folder. In a rootless container, whose only id is
 * root, this fails with EINVAL, so the server is started in a user namespace.
 */
async function serverUser(folder: string): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return { prefix: [], options: {} }
  try {
    const id = async (flag: string) => Number((await promisify(execFile)('id', [flag, 'postgres'])).stdout.trim())
    const options = { uid: await id('-u'), gid: await id('-g') }
    await chown(folder, options.uid, options.gid)
    return { prefix: [], options }
  } catch {
    return { prefix: AS_ANOTHER, options: {} }
  }
}

/** Returns the program and arguments of a command that runs as this user. */
function commandOf({ prefix }: ServerUser, program: string, args: string[]): [string, string[]] {
  const [first = program, ...rest] = [...prefix, program, ...args]
  return [first, rest]
}

interface Launch {
  binaries: string
  data: string
  port: number
  user: ServerUser
  more: readonly string[]
}

async function launch({ binaries, data, port, user, more }: Launch): Promise<ChildProcess> {
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'dynamic_shared_memory_type=mmap',
    'fsync=off',
    'max_connections=200',
    'max_wal_size=256MB',
    ...more,
  ]
  const args = ['-D', data, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])]
  const server = spawn(...commandOf(user, path.join(binaries, 'postgres'), args), {
    ...user.options,
    cwd: data,
    env: { ...process.env, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const log: string[] = []
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('exit', (code) => reject(new Error(`postgres ended with ${code}:\n${log.join('\n')}`)))
    createInterface({ input: server.stderr }).on('line', (line) => {
      if (log.length < 100) log.push(line)
      if (/database system is ready to accept (read-only )?connections/.test(line)) resolve()
    })
  })
  endWithUs(server, path.dirname(data))
  return server
}

/**
 * When this process ends, even by SIGKILL, the input of the watcher ends. The watcher then stops the server and removes its
 * folder.
 */
function endWithUs(server: ChildProcess, folder: string): void {
  const script = 'read -r _; kill -QUIT "$1"; while kill -0 "$1"; do sleep 0.1; done; rm -rf "$2"'
  const watcher = spawn('sh', ['-c', script, 'sh', String(server.pid), folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  server.once('exit', () => watcher.kill('SIGKILL'))
}

export interface ThrowawayOptions {
  /** Settings, such as `ssl=on`. */
  settings?: readonly string[]
  /** Prepares the data directory before the first start. `run` runs a program as the user of the server. */
  prepare?: (data: string, run: (program: string, args: string[]) => Promise<unknown>) => Promise<void>
}

/**
 * Creates a data directory and starts a server on it. @throws if PostgreSQL's binaries are missing or do not start;
 * `openThrowawayPostgres` then returns null
 */
export async function startThrowawayPostgres({
  settings = [],
  prepare = async () => {},
}: ThrowawayOptions = {}): Promise<ThrowawayPostgres> {
  const binaries = findPostgresBinaries()
  if (binaries === null) throw new Error('there are no binaries initdb and postgres on this machine')
  const folder = await makeScratchFolder('parley-postgres-')
  const user = await serverUser(folder)
  const data = path.join(folder, 'data')
  const options = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
  const run = (program: string, args: string[]) =>
    promisify(execFile)(...commandOf(user, program, args), { ...user.options, cwd: folder })
  try {
    await run(path.join(binaries, 'initdb'), options)
    await prepare(data, run)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
  const port = await freePort()
  let server: ChildProcess | null = null
  const postgres: ThrowawayPostgres = {
    url: `postgresql://postgres@127.0.0.1:${port}/postgres`,
    async start() {
      server ??= await launch({ binaries, data, port, user, more: settings })
    },
    async startAsStandby() {
      await run('touch', [path.join(data, 'standby.signal')])
      await postgres.start()
    },
    async stop(mode) {
      if (server === null) return
      const ended = once(server, 'exit')
      server.kill(mode === 'immediate' ? 'SIGQUIT' : 'SIGINT')
      await ended
      server = null
    },
    async dispose() {
      await postgres.stop('immediate')
      await rm(folder, { recursive: true, force: true })
    },
  }
  await postgres.start()
  return postgres
}

/** Starts a server. If this fails, prints a clear warning and returns null. @throws on a CI machine if it fails */
export async function openThrowawayPostgres(options: ThrowawayOptions = {}): Promise<ThrowawayPostgres | null> {
  try {
    return await startThrowawayPostgres(options)
  } catch (error) {
    skipFor(`No PostgreSQL server can be started here: ${messageOf(error)}`)
    return null
  }
}

/**
 * Skips a file in which every test starts a server. Starts one server and stops it. Warns or throws as `openThrowawayPostgres`
 * does.
 */
export async function canStartPostgres(): Promise<boolean> {
  const server = await openThrowawayPostgres()
  await server?.dispose()
  return server !== null
}

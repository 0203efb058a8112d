import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'
import { makeScratchFolder } from './scratch.ts'
import { skipFor } from './skip-for.ts'

/** A PgBouncer for one test, in front of the server of a database URL. */
export interface PgBouncer {
  /** Returns the URL of the same database through the pooler. */
  through(databaseUrl: string): string
  dispose(): Promise<void>
}

export interface PgBouncerOptions {
  poolMode: 'transaction' | 'session' | 'statement'
  /** The only database that the pooler offers; if absent, it offers every database of the server. */
  database?: string
  /** The user of the pooler's connections to the server, if it is not the user of the server's URL. */
  user?: string
  /** Further lines of `[pgbouncer]`. */
  settings?: Record<string, string | number>
}

function findPgBouncer(): string | null {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin']
  const programs = folders.filter((folder) => folder !== '').map((folder) => path.join(folder, 'pgbouncer'))
  return programs.find((program) => existsSync(program)) ?? null
}

/**
 * Returns whether a test can start PgBouncer. If not, prints a clear warning. @throws on a CI machine, which must have
 * PgBouncer
 */
export function canStartPgBouncer(): boolean {
  if (findPgBouncer() !== null) return true
  skipFor('No program pgbouncer on the PATH')
  return false
}

/** Starts PgBouncer on a free port of the loopback interface. It ends together with this process. */
export async function startPgBouncer(
  serverUrl: string,
  { poolMode, database = '*', user: other, settings }: PgBouncerOptions,
): Promise<PgBouncer> {
  const program = findPgBouncer()
  if (program === null) throw new Error('there is no PgBouncer on this machine: call canStartPgBouncer first')
  const { hostname, port: serverPort, username, password } = new URL(serverUrl)
  const folder = await makeScratchFolder('parley-pgbouncer-')
  const port = await freePort()
  const options = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    auth_file: path.join(folder, 'users.txt'),
    pool_mode: poolMode,
    max_client_conn: 500,
    ...settings,
  }
  const file = path.join(folder, 'pgbouncer.ini')
  const lines = Object.entries(options).map(([name, value]) => `${name} = ${value}`)
  const isSame = other === undefined
  const account = [
    `user=${quoted(other ?? username)}`,
    ...(!isSame || password === '' ? [] : [`password=${quoted(password)}`]),
  ].join(' ')
  const server = `${database} = host=${hostname} port=${serverPort || 5432} ${account}`
  // Other values of `auth_type` need this file.
  await writeFile(options.auth_file, `"${username}" ""\n`)
  await writeFile(file, ['[databases]', server, '[pgbouncer]', ...lines, ''].join('\n'))
  await chmod(folder, 0o755)
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const child = spawn(program, [...user, file], { stdio: ['ignore', 'ignore', 'pipe'] })
  const killWithUs = () => void child.kill('SIGKILL')
  process.on('exit', killWithUs)
  await isUp(child)
  return {
    through(databaseUrl) {
      const url = new URL(databaseUrl)
      url.host = `127.0.0.1:${port}`
      return url.href
    },
    async dispose() {
      process.off('exit', killWithUs)
      if (child.exitCode === null) {
        const ended = once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Escapes a part of a URL as a value of a connection string. */
const quoted = (part: string) => `'${decodeURIComponent(part).replaceAll("'", "''")}'`

function isUp(child: ChildProcess): Promise<void> {
  const log: string[] = []
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`pgbouncer ended with ${code}:\n${log.join('\n')}`)))
    createInterface({ input: child.stderr as NonNullable<ChildProcess['stderr']> }).on('line', (line) => {
      if (log.length < 100) log.push(line)
      if (line.includes('process up')) resolve()
    })
  })
}

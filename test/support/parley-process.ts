import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from './free-port.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const NODE = process.execPath
const END_WITH_PARENT = path.join(import.meta.dirname, 'end-with-parent.ts')
const SKEWED_CLOCK = path.join(import.meta.dirname, 'skewed-clock.ts')
const READY_WITHIN_MS = 60_000
const ADMIN_TOKEN = 'admin-token-of-tests-and-benchmarks'

/** A Parley in a separate process, started as an operator would start it. */
export interface ParleyProcess {
  /** `http://127.0.0.1:<port>`, without a path. */
  origin: string
  adminToken: string
  pid: number
  /** The output of the process so far. */
  output(): string
  /** Settles when the process has ended, for any reason. */
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Sends SIGTERM, and returns the exit code. Removes the data directory if `startParley` created it. */
  stop(): Promise<number | null>
  /** Sends SIGKILL, to simulate a crash. */
  kill(): Promise<void>
}

export interface ParleyProcessOptions {
  /**
   * Settings in addition to HOST, PORT, PARLEY_ADMIN_TOKEN and a new DATA_DIR. The process inherits no settings from this one.
   */
  settings?: Record<string, string>
  /** Whether to wait until the server is ready. Otherwise, resolves as soon as the process runs. */
  untilReady?: boolean
  /**
   * Whether to start it with `npm start`. `pid` is then that of npm, which leads a process group. SIGTERM goes only to npm, and
   * SIGKILL to the group.
   */
  byNpm?: boolean
  /** The arguments for node; by default, those that start the server. */
  command?: string[]
  /** How far the clock of the process is ahead of the true time. */
  clockSkewMs?: number
  /** The checkout from which to run the server; by default this one. Benchmarks compare it with another. */
  root?: string
}

/** Starts `node src/main.ts` on a free port. @throws with its output if the process ends before it is ready */
export async function startParley(options: ParleyProcessOptions = {}): Promise<ParleyProcess> {
  for (let left = 3; ; left--) {
    try {
      return await startOnce(options)
    } catch (error) {
      // Another process has taken the port in the meantime.
      const isTaken = options.settings?.PORT === undefined && String(error).includes('is in use')
      if (!isTaken || left === 0) throw error
    }
  }
}

async function startOnce(options: ParleyProcessOptions): Promise<ParleyProcess> {
  const {
    settings = {},
    untilReady = true,
    byNpm = false,
    command = ['src/main.ts'],
    clockSkewMs = 0,
    root = ROOT,
  } = options
  const folder = settings.DATA_DIR ? null : await mkdtemp(path.join(tmpdir(), 'parley-data-'))
  const port = settings.PORT ?? String(await freePort())
  const loaded = ['--import', END_WITH_PARENT, '--import', SKEWED_CLOCK]
  const [program, ...given] = byNpm ? ['npm', 'start'] : [NODE, ...loaded, ...command]
  const child = spawn(program, given, {
    cwd: root,
    detached: byNpm,
    env: {
      ...systemVariables(),
      HOST: '127.0.0.1',
      PORT: port,
      PARLEY_ADMIN_TOKEN: ADMIN_TOKEN,
      DATA_DIR: folder ?? '',
      ...settings,
      TEST_CLOCK_SKEW_MS: String(clockSkewMs),
    },
    stdio: ['ignore', 'pipe', 'pipe', ...(byNpm ? [] : ['ipc' as const])],
  })
  const parley = describe(child, `http://127.0.0.1:${port}`, settings.PARLEY_ADMIN_TOKEN ?? ADMIN_TOKEN, folder)
  if (untilReady) await becomeReady(parley)
  return parley
}

function describe(child: ChildProcess, origin: string, adminToken: string, folder: string | null): ParleyProcess {
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  const exited = once(child, 'close').then(([code, signal]) => ({ code, signal }))
  const send = (signal: NodeJS.Signals) => {
    if (signal !== 'SIGKILL' || child.spawnfile !== 'npm') return void child.kill(signal)
    try {
      process.kill(-(child.pid ?? 0), signal)
    } catch {
      // The group ends together with its last process.
    }
  }
  const killWithUs = () => send('SIGKILL')
  process.on('exit', killWithUs)
  const end = async (signal: NodeJS.Signals) => {
    send(signal)
    const { code } = await exited
    process.off('exit', killWithUs)
    if (folder) await rm(folder, { recursive: true, force: true })
    return code
  }
  return {
    origin,
    adminToken,
    pid: child.pid ?? 0,
    output: () => output,
    exited,
    stop: () => end('SIGTERM'),
    kill: async () => void (await end('SIGKILL')),
  }
}

async function becomeReady(parley: ParleyProcess): Promise<void> {
  const giveUp = AbortSignal.timeout(READY_WITHIN_MS)
  let ended = false
  const gone = parley.exited.then(() => {
    ended = true
  })
  while (!(await isReady(parley.origin))) {
    if (!ended && !giveUp.aborted) {
      await Promise.race([gone, new Promise((resolve) => setTimeout(resolve, 20))])
      continue
    }
    const what = ended ? `ended with ${(await parley.exited).code} before it was` : 'did not become'
    await parley.kill()
    throw new Error(`Parley ${what} ready:\n${parley.output()}`)
  }
}

async function isReady(origin: string): Promise<boolean> {
  try {
    return (await fetch(`${origin}/health/ready`)).ok
  } catch {
    return false
  }
}

/** The environment that any process needs, without settings of Parley. */
function systemVariables(): Record<string, string | undefined> {
  const { PATH, HOME, TMPDIR, SYSTEMROOT, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE, LD_LIBRARY_PATH } = process.env
  return { PATH, HOME, TMPDIR, SYSTEMROOT, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE, LD_LIBRARY_PATH }
}

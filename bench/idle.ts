import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startParley } from '../test/support/parley-process.ts'
import type { Benchmark } from './support/figures.ts'
import { residentMebibytesOf } from './support/stack.ts'

const SECONDS = 15

/** The resident memory is measured after this idle time. */
async function restingMebibytes(pid: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000))
  return residentMebibytesOf(pid)
}

export const idle: Benchmark = {
  question: `How much memory does the embedded server use ${SECONDS} s after its start, without requests?`,
  async run() {
    const dataDirectory = await mkdtemp(path.join(tmpdir(), 'parley-idle-'))
    const start = async () => {
      const startedAt = performance.now()
      const parley = await startParley({ settings: { DATA_DIR: dataDirectory } })
      return { parley, seconds: (performance.now() - startedAt) / 1000 }
    }
    const first = await start()
    const parleyMebibytes = await restingMebibytes(first.parley.pid)
    await first.parley.stop()
    const later = await start()
    await later.parley.stop()
    await rm(dataDirectory, { recursive: true })
    const pglite = fork(path.join(import.meta.dirname, 'support/pglite-process.ts'))
    await once(pglite, 'message')
    const pgliteMebibytes = await restingMebibytes(pglite.pid ?? 0)
    pglite.kill()
    return [
      { what: 'resident, embedded', value: parleyMebibytes, unit: 'MiB', bound: { atMost: 238 }, source: '250 MB' },
      { what: 'Node with an open PGlite and nothing else', value: pgliteMebibytes, unit: 'MiB' },
      { what: 'from start to ready on an empty DATA_DIR', value: first.seconds, unit: 's', bound: { atMost: 3 } },
      { what: 'from start to ready, later', value: later.seconds, unit: 's', bound: { atMost: 1.5 } },
    ]
  },
}

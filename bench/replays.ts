import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Database } from '../src/platform/db.ts'
import { startApplication, type TestApplication } from '../test/support/application.ts'
import { openService } from '../test/support/booked-service.ts'
import { linesOf, playRoom, roomKind } from '../test/support/recorded-rooms.ts'
import type { Benchmark, Figure } from './support/figures.ts'

const ROOMS = 200
const QUICK_ROOMS = 20
const MOST_SECONDS = 60
const MOST_MORE_ROWS = 0.02
/** Returns the number of rows of each table. */
async function rowsIn({ prisma }: Pick<Database, 'prisma'>): Promise<Map<string, number>> {
  const tables = await prisma.$queryRaw<{ name: string }[]>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_prisma_migrations'`
  const counts = new Map<string, number>()
  for (const { name } of tables) {
    const [row] = await prisma.$queryRawUnsafe<{ count: number }[]>(`SELECT count(*)::int AS count FROM "${name}"`)
    counts.set(name, row?.count ?? 0)
  }
  return counts
}

const sumOf = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((sum, count) => sum + count, 0)

/** Runs conversations in rooms, and writes a recording of each to the folder. */
async function record(parley: TestApplication, folder: string, count: number) {
  const service = await openService()
  const spaces: string[] = []
  for (let n = 0; n < count; n++) spaces.push((await playRoom(parley, roomKind(n), service.url)).spaceId)
  await service.close()
  const { db } = parley.app.platform
  const rooms = sumOf(await rowsIn(db))
  // The first version of an agent is created together with the agent.
  const versions = await db.prisma.agentVersion.count({ where: { number: { gt: 1 } } })
  const files: string[] = []
  for (const [n, spaceId] of spaces.entries()) {
    const file = path.join(folder, `${n}.jsonl`)
    await writeFile(file, await linesOf(parley, spaceId))
    files.push(file)
  }
  const written = sumOf(await rowsIn(db)) - rooms
  return { files, more: (versions + written) / (rooms - versions) }
}

export const replays: Benchmark = {
  question: `How long does \`parley replay\` take for ${ROOMS} recorded rooms of every kind, and how many more rows do recordings cost?`,
  mostMinutes: 20,
  async run({ quick }) {
    const count = quick ? QUICK_ROOMS : ROOMS
    const folder = await mkdtemp(path.join(tmpdir(), 'parley-bench-replays-'))
    const parley = await startApplication({ isFresh: true })
    const { files, more } = await record(parley, folder, count)
    await parley.close()
    const command = path.resolve(import.meta.dirname, '../bin/parley.cjs')
    const began = performance.now()
    // Fails if the replay of a room differs from its recording.
    await promisify(execFile)(process.execPath, [command, 'replay', ...files], { maxBuffer: 2 ** 28 })
    const seconds = (performance.now() - began) / 1000
    await rm(folder, { recursive: true })
    const figures: Figure[] = [
      {
        what: `replaying ${count} rooms`,
        value: seconds,
        unit: 's',
        bound: { atMost: (MOST_SECONDS * count) / ROOMS },
      },
      { what: 'a room', value: (seconds / count) * 1000, unit: 'ms' },
      {
        what: 'rows of later versions, and those that recording has written, of the other rows of the rooms',
        value: more,
        unit: '×',
        bound: { atMost: MOST_MORE_ROWS },
      },
    ]
    return figures
  },
}

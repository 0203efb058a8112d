import { existsSync, statfsSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Linux's file system in memory: ext4 is slow to make a file where thousands were removed within the last seconds. */
const IN_MEMORY = '/dev/shm'
const ROOM_NEEDED = 2 ** 30
const LEFT_BEHIND_AFTER_MS = 2 * 60 * 60 * 1000

/** A new folder for a database's files: in memory where there is room. Whoever makes it removes it. */
export function makeScratchFolder(prefix: string): Promise<string> {
  return mkdtemp(path.join(hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir(), prefix))
}

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize > ROOM_NEEDED
}

/** Removes folders in memory that a run which was killed left behind more than two hours ago. */
export async function removeLeftBehind(): Promise<void> {
  if (!existsSync(IN_MEMORY)) return
  for (const name of await readdir(IN_MEMORY)) {
    const folder = path.join(IN_MEMORY, name)
    if (!name.startsWith('parley-')) continue
    const { mtimeMs } = await stat(folder)
    if (mtimeMs < Date.now() - LEFT_BEHIND_AFTER_MS) await rm(folder, { recursive: true, force: true })
  }
}

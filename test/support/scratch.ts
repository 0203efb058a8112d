import { existsSync, readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { runId } from './run-id.ts'

/** Linux's file system in memory. On ext4, creating files is slow after thousands were removed within the last seconds. */
const IN_MEMORY = '/dev/shm'
const ROOM_NEEDED = 2 ** 30
const LEFT_BEHIND_AFTER_MS = 2 * 60 * 60 * 1000
const DAY_MS = 24 * 60 * 60 * 1000

/** Creates a new folder for the files of a database, in memory if there is room. The caller removes it. */
export function makeScratchFolder(prefix: string): Promise<string> {
  return mkdtemp(path.join(hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir(), `${prefix}${runId()}-`))
}

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize > ROOM_NEEDED
}

/** Removes compiled code that is older than a day, because each run adds the code of each test file under a new name. */
export function removeOldCompiledCode(): void {
  const cache = path.join(tmpdir(), 'parley-compile-cache')
  if (!existsSync(cache)) return
  // There are thousands of files, so promises would take much longer.
  for (const name of readdirSync(cache, { recursive: true, encoding: 'utf8' })) {
    const file = path.join(cache, name)
    const found = statSync(file, { throwIfNoEntry: false })
    if (found?.isFile() && found.mtimeMs < Date.now() - DAY_MS) rmSync(file, { force: true })
  }
}

/** Removes folders in memory that a killed run left more than two hours ago. */
export async function removeLeftBehind(): Promise<void> {
  if (!existsSync(IN_MEMORY)) return
  for (const name of await readdir(IN_MEMORY)) {
    const folder = path.join(IN_MEMORY, name)
    if (!name.startsWith('parley-')) continue
    const { mtimeMs } = await stat(folder)
    if (mtimeMs < Date.now() - LEFT_BEHIND_AFTER_MS) await rm(folder, { recursive: true, force: true })
  }
}

/** Removes the folders that tests of this run have not removed. */
export async function removeScratchFolders(): Promise<void> {
  const left = new RegExp(`^parley-.*${runId()}-\\w{6}$`)
  for (const parent of [IN_MEMORY, tmpdir()]) {
    for (const name of existsSync(parent) ? await readdir(parent) : []) {
      if (left.test(name)) await rm(path.join(parent, name), { recursive: true, force: true })
    }
  }
}

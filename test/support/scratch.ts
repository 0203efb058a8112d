import { existsSync, statfsSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { runId } from './run-id.ts'

/** Linux's file system in memory: ext4 creates files slowly after thousands were removed within the last seconds. */
const IN_MEMORY = '/dev/shm'
const ROOM_NEEDED = 2 ** 30
const LEFT_BEHIND_AFTER_MS = 2 * 60 * 60 * 1000

/** A new folder for a database's files: in memory if there is room. The caller removes it. */
export function makeScratchFolder(prefix: string): Promise<string> {
  return mkdtemp(path.join(hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir(), `${prefix}${runId()}-`))
}

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize > ROOM_NEEDED
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

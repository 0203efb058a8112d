import { existsSync, statfsSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Linux's file system in memory: ext4 is slow to make a file where thousands were removed within the last seconds. */
const IN_MEMORY = '/dev/shm'
const ROOM_NEEDED = 2 ** 30

/** A new folder for a database's files: in memory where there is room. Whoever makes it removes it. */
export function makeScratchFolder(prefix: string): Promise<string> {
  return mkdtemp(path.join(hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir(), prefix))
}

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize > ROOM_NEEDED
}

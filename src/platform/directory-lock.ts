import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from '../lib/errors.ts'
import { makeDataDirectory } from './data-directory.ts'

/**
 * The time to wait for the lock: after a process is killed, its parent may learn of its end before the kernel has
 * released its locks.
 */
const WAIT_MS = 1000
/** SQLITE_BUSY */
const BUSY = 5

/** Another running process has locked the directory. */
export class DirectoryBusyError extends Error {
  constructor(directory: string) {
    super(`DATA_DIR: another process uses ${directory}; stop it, or give this process its own directory`)
    this.name = 'DirectoryBusyError'
  }
}

/**
 * Locks a directory for this process, because two PGlite instances would destroy the same directory. Node cannot
 * lock files, so an SQLite transaction on the file `lock.db` takes the kernel's file lock. The lock ends with the
 * process, however the process ends, and also works between containers that share the directory. The file stays
 * empty. Nothing else in this process may open the file, because closing it once would release all locks of the
 * process on it.
 * @returns a function that releases the directory
 * @throws DirectoryBusyError while another process holds the lock
 */
export function lockDirectory(directory: string): () => void {
  makeDataDirectory(directory)
  const file = new DatabaseSync(path.join(directory, 'lock.db'))
  try {
    file.exec(`PRAGMA busy_timeout = ${WAIT_MS}; BEGIN EXCLUSIVE`)
  } catch (error) {
    file.close()
    if ((error as { errcode?: number }).errcode === BUSY) throw new DirectoryBusyError(directory)
    throw new Error(`DATA_DIR: ${directory} cannot be locked: ${messageOf(error)}`)
  }
  let isHeld = true
  return () => {
    if (isHeld) file.close()
    isHeld = false
  }
}

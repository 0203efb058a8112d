import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from '../lib/errors.ts'
import { makeDataDirectory } from './data-directory.ts'

/**
 * How long to wait for the lock. When a process is killed, its parent can be notified before the kernel has released
 * the locks.
 */
const WAIT_MS = 1000
/** The error code SQLITE_BUSY. */
const BUSY = 5

/** Another running process has locked the directory. */
export class DirectoryBusyError extends Error {
  constructor(directory: string) {
    super(
      `DATA_DIR: another process uses ${directory}; stop it, or give this process its own directory, and with it a database of its own. Several processes of one installation need DATABASE_URL and REDIS_URL`,
    )
    this.name = 'DirectoryBusyError'
  }
}

/**
 * Locks a directory for this process, because two PGlite instances would corrupt the same directory. Node cannot lock
 * files, so an SQLite transaction on the file `lock.db` takes the kernel's file lock. The kernel releases the lock when
 * the process ends for any reason. The lock also works between containers that share the directory. The file stays
 * empty. No other code in this process may open the file, because closing it would release all of the process's locks
 * on it.
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

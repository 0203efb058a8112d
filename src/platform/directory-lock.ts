import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from '../lib/errors.ts'
import { makeDataDirectory } from './data-directory.ts'

/** A holder that was killed is gone for its parent before the kernel has let go of all that it had. */
const WAIT_MS = 1000
/** SQLITE_BUSY */
const BUSY = 5

/** Another living process holds the directory. */
export class DirectoryBusyError extends Error {
  constructor(directory: string) {
    super(`DATA_DIR: another process uses ${directory}; stop it, or give this one a directory of its own`)
    this.name = 'DirectoryBusyError'
  }
}

/**
 * Takes a directory for this process: two PGlites on one directory destroy it. What is held is the kernel's lock of the file
 * `lock.db`, by way of an SQLite transaction, since Node itself locks no files: it falls with its process, however that
 * ends, and holds between containers that share the directory. Nothing is kept in the file. Nobody else may open it here:
 * a process gives its locks of a file back as soon as it closes that file once.
 * @returns a function that gives the directory back.
 * @throws DirectoryBusyError while another process holds it.
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

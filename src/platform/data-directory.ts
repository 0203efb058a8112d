import { accessSync, constants, mkdirSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { messageOf } from '../lib/errors.ts'

/**
 * Creates DATA_DIR, readable only by this user, if it does not exist. Returns a function that removes the directories
 * it created if they are empty.
 * @throws Error with a one-line message if the directory cannot be used
 */
export function makeDataDirectory(directory: string): () => void {
  try {
    const first = mkdirSync(directory, { recursive: true, mode: 0o700 })
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK)
    return () => removeEmpty(path.resolve(directory), first)
  } catch (error) {
    throw unusableDirectory(directory, error)
  }
}

/** Removes empty directories from `directory` up to its ancestor `first`. */
function removeEmpty(directory: string, first: string | undefined): void {
  if (first === undefined) return
  const top = path.resolve(first)
  try {
    for (let at = directory; at.startsWith(top); at = path.dirname(at)) rmdirSync(at)
  } catch {
    // The directory is not empty, because another process has already written to it.
  }
}

export function unusableDirectory(directory: string, error: unknown): Error {
  return new Error(`DATA_DIR: ${directory} cannot be used: ${messageOf(error)}`, { cause: error })
}

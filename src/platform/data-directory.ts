import { accessSync, constants, mkdirSync } from 'node:fs'
import { messageOf } from '../lib/errors.ts'

/**
 * Creates DATA_DIR, readable only by this user, if it does not exist. @throws Error with one readable line if it cannot
 * be used
 */
export function makeDataDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw unusableDirectory(directory, error)
  }
}

export function unusableDirectory(directory: string, error: unknown): Error {
  return new Error(`DATA_DIR: ${directory} cannot be used: ${messageOf(error)}`, { cause: error })
}

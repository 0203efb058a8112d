import { accessSync, constants, mkdirSync } from 'node:fs'
import { messageOf } from '../lib/errors.ts'

/** Makes DATA_DIR, for this user alone, where it is not there yet. @throws one readable line where nothing can be kept in it. */
export function makeDataDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new Error(`DATA_DIR: ${directory} cannot be used: ${messageOf(error)}`)
  }
}

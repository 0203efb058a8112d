import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeDataDirectory, unusableDirectory } from './data-directory.ts'

/** A secret, and whether this start generated it. Only a generated secret may be printed. */
export interface Secret {
  value: string
  generated: boolean
}

/**
 * Returns the given secret, or the one stored in `directory/name`. If there is neither, generates a secret and stores
 * it there with mode 0600.
 *
 * Processes that start at the same time get the same secret: each process links a complete file to the name, and only
 * one link succeeds.
 * @throws Error with a one-line message if the directory cannot be used
 */
export function keptSecret(directory: string, name: string, given: string | null): Secret {
  if (given !== null) return { value: given, generated: false }
  makeDataDirectory(directory)
  try {
    return storedSecret(path.join(directory, name))
  } catch (error) {
    throw unusableDirectory(directory, error)
  }
}

function storedSecret(file: string): Secret {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  const value = randomBytes(32).toString('base64url')
  writeFileSync(draft, value, { flag: 'wx', mode: 0o600 })
  try {
    linkSync(draft, file)
    return { value, generated: true }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return { value: readFileSync(file, 'utf8').trim(), generated: false }
  } finally {
    rmSync(draft, { force: true })
  }
}

import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeDataDirectory } from './data-directory.ts'

/** A secret and whether this start made it (only then may it be printed). */
export interface Secret {
  value: string
  generated: boolean
}

/**
 * The given secret, else the one kept in `directory/name`, else a new one that is kept there with mode 0600.
 * Two processes that start at once agree: a whole file is linked to the name, which succeeds for one of them only.
 */
export function keptSecret(directory: string, name: string, given: string | null): Secret {
  if (given !== null) return { value: given, generated: false }
  const file = path.join(directory, name)
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  makeDataDirectory(directory)
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

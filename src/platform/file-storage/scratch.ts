import { readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'

/**
 * Deletes the files in a directory that were last written before a time. Other processes may delete the same files
 * concurrently.
 */
export async function deleteOldFiles(directory: string, before: Date): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    const at = path.join(directory, entry.name)
    const written = entry.isFile() ? await stat(at).catch(() => null) : null
    if (written !== null && written.mtimeMs < before.getTime()) await rm(at, { force: true })
  }
}

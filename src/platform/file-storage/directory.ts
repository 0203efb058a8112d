import { randomUUID } from 'node:crypto'
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { type FileStorage, IDENTITY_KEY, StorageUnavailableError, type Stored } from './file-storage.ts'
import { deleteOldFiles } from './scratch.ts'

/**
 * Stores objects as files in a directory that several processes can share. Writes each file under a temporary name in
 * the same file system, syncs it to disk, and then renames it.
 */
export function createDirectoryStorage(root: string): FileStorage {
  const scratchPath = path.resolve(root, 'scratch')
  const pathOf = (key: string) => path.resolve(root, ...key.split('/'))

  async function scratch(): Promise<string> {
    await mkdir(scratchPath, { recursive: true, mode: 0o700 })
    return scratchPath
  }

  /**
   * Writes the content to a temporary file in the storage's file system, syncs the file to disk, and returns its path.
   */
  async function written(stored: Stored): Promise<string> {
    const isFile = !(stored instanceof Uint8Array)
    const at = isFile ? stored.path : path.join(await scratch(), randomUUID())
    const file = await open(at, isFile ? 'r+' : 'wx', 0o600)
    try {
      if (!isFile) await file.writeFile(stored)
      await file.sync()
    } catch (error) {
      if (!isFile) await rm(at, { force: true })
      throw error
    } finally {
      await file.close()
    }
    return at
  }

  return {
    scratch: () => available(scratch),
    sweepScratch: (before) => available(() => deleteOldFiles(scratchPath, before)),
    put: (key, stored) =>
      available(async () => {
        const target = pathOf(key)
        await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
        await rename(await written(stored), target)
      }),
    read: (key, range) =>
      available(async () => {
        const file = await open(pathOf(key), 'r').catch(nullIfMissing)
        return file?.createReadStream(range === undefined ? {} : { start: range.first, end: range.last }) ?? null
      }),
    delete: (key) => available(() => rm(pathOf(key), { force: true })),
    identity: () =>
      available(async () => {
        const target = pathOf(IDENTITY_KEY)
        const existing = await readFile(target, 'utf8').catch(nullIfMissing)
        if (existing !== null) return existing
        const created = await written(Buffer.from(randomUUID()))
        // A link fails if another process has created the file first. A rename would replace that file.
        await link(created, target)
          .catch((error) => {
            if (error.code !== 'EEXIST') throw error
          })
          .finally(() => rm(created, { force: true }))
        return readFile(target, 'utf8')
      }),
    async close() {},
  }
}

const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === 'ENOENT') return null
  throw error
}

async function available<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new StorageUnavailableError(error)
  }
}

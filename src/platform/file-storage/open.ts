import { createDirectoryStorage } from './directory.ts'
import type { FileStorage } from './file-storage.ts'

/** Opens the storage that PARLEY_FILES names. Nothing is read or written until the storage is used. */
export function openFileStorage(setting: string): FileStorage {
  return createDirectoryStorage(setting)
}

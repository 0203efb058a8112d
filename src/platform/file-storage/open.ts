import type { S3Location } from '../../config/files.ts'
import { createDirectoryStorage } from './directory.ts'
import type { FileStorage } from './file-storage.ts'
import { createS3Storage } from './s3.ts'

/** Opens the storage that PARLEY_FILES configures. Reads and writes nothing until the storage is used. */
export function openFileStorage(setting: string | S3Location): FileStorage {
  return typeof setting === 'string' ? createDirectoryStorage(setting) : createS3Storage(setting)
}

import type { Readable } from 'node:stream'

/** Part of an object: the first and the last byte. */
export interface ByteRange {
  first: number
  last: number
}

/** The content of an object: a file on this machine, which may be moved away, or bytes. */
export type Stored = { path: string; size: number; sha256: string } | Uint8Array

/**
 * The storage of PARLEY_FILES: objects by key. A key consists of segments of `[a-z0-9-]`, separated by `/`. Every method
 * throws StorageUnavailableError if the storage cannot be used.
 */
export interface FileStorage {
  /** A directory on this machine for uploads in progress. It exists. */
  scratch(): Promise<string>
  /** Deletes files of such directories that were last written before a time: processes that died have left them. */
  sweepScratch(before: Date): Promise<void>
  /** Stores an object, or replaces one of the same key. Other processes see the whole object or none of it. */
  put(key: string, stored: Stored): Promise<void>
  /** Returns an object's bytes, or those of a range within it; null if the object does not exist. The caller reads or destroys the stream. */
  read(key: string, range?: ByteRange): Promise<Readable | null>
  /** Deletes an object, if it exists. */
  delete(key: string): Promise<void>
  /**
   * Returns the id of this storage, a random value that the first process stores: processes with the same id
   * share their files.
   */
  identity(): Promise<string>
  close(): Promise<void>
}

/** The storage of PARLEY_FILES cannot be used now. `cause` has the details, for the log. */
export class StorageUnavailableError extends Error {
  constructor(cause: unknown, message = 'The storage of files (PARLEY_FILES) is unavailable: try again later.') {
    super(message, { cause })
    this.name = 'StorageUnavailableError'
  }
}

/** The key of the object that holds the storage's id. */
export const IDENTITY_KEY = 'storage-id'

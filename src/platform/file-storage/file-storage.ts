import type { Readable } from 'node:stream'

/** A range of bytes in an object, given by the positions of its first and last byte. */
export interface ByteRange {
  first: number
  last: number
}

/** The content of an object: bytes, or a file on this machine, which the storage is allowed to move. */
export type Stored = { path: string; size: number; sha256: string } | Uint8Array

/**
 * The storage that PARLEY_FILES configures. It stores objects by key. A key consists of segments of `[a-z0-9-]`,
 * separated by `/`. Every method throws StorageUnavailableError if the storage cannot be used.
 */
export interface FileStorage {
  /** Returns an existing directory on this machine for uploads in progress. */
  scratch(): Promise<string>
  /** Deletes leftover files of dead processes from the scratch directory: those last written before the given time. */
  sweepScratch(before: Date): Promise<void>
  /**
   * Stores an object, or replaces the object with the same key. Other processes see either the complete object or no
   * change.
   */
  put(key: string, stored: Stored): Promise<void>
  /**
   * Returns the bytes of an object, or of a range; null if the object does not exist. The caller must read or
   * destroy the stream.
   */
  read(key: string, range?: ByteRange): Promise<Readable | null>
  /** Deletes an object if it exists. */
  delete(key: string): Promise<void>
  /**
   * Returns the id of this storage, a random value that the first process stores. Processes that read the same id share
   * their files.
   */
  identity(): Promise<string>
  close(): Promise<void>
}

/** Thrown while the storage of PARLEY_FILES cannot be used. Its `cause` has the details for the log. */
export class StorageUnavailableError extends Error {
  constructor(cause: unknown, message = 'The storage of files (PARLEY_FILES) is unavailable: try again later.') {
    super(message, { cause })
    this.name = 'StorageUnavailableError'
  }
}

/** The key of the object that holds the storage's id. */
export const IDENTITY_KEY = 'storage-id'

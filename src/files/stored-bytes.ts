import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { BadInputError, FileTooLargeError } from '../lib/errors.ts'
import { type FileStorage, StorageUnavailableError } from '../platform/file-storage/file-storage.ts'

/** A file in the scratch directory of this machine. */
export interface ReceivedFile {
  path: string
  size: number
  sha256: string
}

/** Returns the key under which the bytes with this hash are stored. */
export const keyOfHash = (hash: string): string => `objects/${hash.slice(0, 2)}/${hash.slice(2)}`

/**
 * Returns the key of a part of an unfinished upload. The key contains the end offset, so that an aborted request does
 * not overwrite a longer part of another request.
 */
export const partKey = (uploadId: string, from: number, end: number): string => `uploads/${uploadId}/${from}-${end}`

/**
 * Writes a stream to a scratch file and computes the hash. If this fails, no file is left. The caller removes the file,
 * unless the storage has moved it. With `keepsBrokenOff`, an interruption of the stream is not an error, and the bytes
 * before the interruption are kept.
 * @throws FileTooLargeError; BadInputError if the stream is empty; StorageUnavailableError; the error of the stream
 */
export async function receiveFile(
  storage: Pick<FileStorage, 'scratch'>,
  body: Readable | AsyncIterable<Uint8Array>,
  {
    mostBytes,
    signal,
    keepsBrokenOff = false,
  }: { mostBytes: number; signal?: AbortSignal | undefined; keepsBrokenOff?: boolean },
): Promise<ReceivedFile> {
  const at = path.join(await storage.scratch(), randomUUID())
  const hash = createHash('sha256')
  let size = 0
  /** The error of the source; undefined if the disk failed instead. */
  let ofSource: unknown
  async function* counted() {
    try {
      for await (const chunk of keepsBrokenOff ? beginningOf(body) : body) {
        await takeTurn()
        size += chunk.byteLength
        if (size > mostBytes) throw new FileTooLargeError(mostBytes)
        hash.update(chunk)
        yield chunk
      }
      if (size === 0) throw new BadInputError('The file is empty.')
    } catch (error) {
      ofSource = error
      throw error
    }
  }
  try {
    await pipeline(counted, createWriteStream(at, { flags: 'wx', mode: 0o600 }), signal ? { signal } : {})
    return { path: at, size, sha256: hash.digest('hex') }
  } catch (error) {
    await rm(at, { force: true })
    if (ofSource !== undefined) throw ofSource
    throw signal?.aborted ? error : new StorageUnavailableError(error)
  }
}

let lastTurn: Promise<void> = Promise.resolve()

/**
 * Waits for a turn. Each iteration of the event loop processes one chunk of one upload. Otherwise, every other request
 * would have to wait for a chunk of each upload at each of its own steps. An upload that waits does not read more from
 * its socket.
 */
function takeTurn(): Promise<void> {
  lastTurn = lastTurn.then(() => new Promise<void>((resolve) => setImmediate(resolve)))
  return lastTurn
}

/** Yields the chunks of a stream, and ends without an error if the stream is cut off. */
async function* beginningOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch {
    // The sender can resume the upload here, so the error is ignored.
  }
}

import { rm } from 'node:fs/promises'
import { keyOfHash, receiveFile } from '../files/stored-bytes.ts'
import { storeReceived } from '../files/storing.ts'
import { BadInputError, FileTooLargeError } from '../lib/errors.ts'
import { cleanFileName } from '../lib/file-name.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { touchObjectSql } from '../stores/file-store.ts'

// In an export, the row of a file precedes the lines with the bytes of the file: `{ "fileId": "fil_…", "data":
// "<base64>" }`.

/** A line with bytes of a file. */
export interface FileBytes {
  fileId: string
  data: string
}

/**
 * The number of bytes in a line. It is a multiple of three, so that only the last line has base64 padding. A line of
 * this size is shorter than the maximum line of an import.
 */
const PIECE_BYTES = 3 * 1024 * 1024

/**
 * Yields the lines with the bytes of a file; yields nothing if the bytes are not in the storage.
 * @throws StorageUnavailableError
 */
export async function* bytesOfFile(
  files: Pick<Platform['files'], 'read'>,
  { id, hash }: { id: string; hash: string },
): AsyncGenerator<FileBytes> {
  const stream = await files.read(keyOfHash(hash))
  let waiting = Buffer.alloc(0)
  const lineOf = (bytes: Buffer): FileBytes => ({ fileId: id, data: bytes.toString('base64') })
  for await (const chunk of stream ?? []) {
    waiting = Buffer.concat([waiting, chunk as Buffer])
    for (; waiting.length >= PIECE_BYTES; waiting = waiting.subarray(PIECE_BYTES))
      yield lineOf(waiting.subarray(0, PIECE_BYTES))
  }
  if (waiting.length > 0) yield lineOf(waiting)
}

/** The lines of an import. The reader can peek at the next line. */
export interface Lines {
  /** The number of the last line that was read. */
  readonly number: number
  /** Returns the next line without consuming it; null at the end. */
  peek(): Promise<string | null>
  take(): Promise<string | null>
}

export function linesOf(source: AsyncIterable<string> | Iterable<string>): Lines {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
  let next: Promise<string | null> | null = null
  let number = 0
  const peek = () => (next ??= Promise.resolve(iterator.next()).then(({ done, value }) => (done ? null : value)))
  return {
    get number() {
      return number
    },
    peek,
    async take() {
      const line = await peek()
      next = null
      number += 1
      return line
    },
  }
}

const BEGINNING = '{"fileId":'

/** Whether a line contains bytes of a file. */
export const hasBytes = (line: string): boolean => line.startsWith(BEGINNING)

async function* takeBytes(lines: Lines): AsyncGenerator<Uint8Array> {
  for (;;) {
    const line = await lines.peek()
    if (line === null || !hasBytes(line)) return
    const { data } = JSON.parse(line) as Partial<FileBytes>
    if (typeof data !== 'string') return
    await lines.take()
    yield Buffer.from(data, 'base64')
  }
}

export type FileRow = Record<string, unknown>

/**
 * Reads the lines with bytes that follow the row of a file, and stores the bytes. Returns the row with properties that
 * are computed from the bytes, or the reason why the file is skipped. The hash and size in the row are not trusted,
 * because an import could otherwise use a hash to get a file of somebody else.
 * @throws StorageUnavailableError
 */
export async function receiveMovedFile(
  tx: Tx,
  { files, config }: Pick<Platform, 'files' | 'config'>,
  { row, lines, dryRun }: { row: FileRow; lines: Lines; dryRun: boolean },
): Promise<{ row: FileRow } | { reason: string }> {
  const { maxFileBytes } = config.limits
  try {
    const received = await receiveFile(files, takeBytes(lines), { mostBytes: maxFileBytes })
    try {
      if (received.sha256 !== row['hash'])
        return { reason: 'the content of this file is damaged or incomplete in the export' }
      if (dryRun) return { row }
      const touch = (hash: string, size: number) => tx.$executeRaw(touchObjectSql(hash, size))
      return {
        row: { ...row, ...(await storeReceived(files, received, touch)), name: cleanFileName(String(row['name'])) },
      }
    } finally {
      await rm(received.path, { force: true })
    }
  } catch (error) {
    if (error instanceof FileTooLargeError)
      return { reason: `the file is larger than PARLEY_MAX_FILE_BYTES (${maxFileBytes})` }
    if (error instanceof BadInputError) return { reason: 'the export does not contain the content of this file' }
    throw error
  }
}

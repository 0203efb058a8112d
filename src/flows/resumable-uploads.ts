import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Viewer } from '../access/viewer.ts'
import type { SharedStorage } from '../files/shared-storage.ts'
import { partKey, receiveFile } from '../files/stored-bytes.ts'
import type { File, FileUpload } from '../generated/prisma/client.ts'
import {
  BadInputError,
  ConflictError,
  FileTooLargeError,
  ForbiddenError,
  LimitExceededError,
  messageOf,
  NotFoundError,
} from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { addPart, clearParts, deleteUpload, finishUpload, insertUpload, lockUploads } from '../stores/file-store.ts'
import type { Uploads } from './upload-file.ts'

/**
 * Manages uploads that clients can resume on any process after an interruption. Only the human who began an upload
 * can see it.
 */
export interface ResumableUploads {
  newId(): string
  /** The time from the start of an upload until it expires. */
  lifetimeMs: number
  /**
   * Begins an upload. The resulting file will have the id of the upload.
   * @throws BadInputError, ForbiddenError, LimitExceededError, StorageUnavailableError
   */
  begin(viewer: Viewer, input: { id: string; name: string; size: number }): Promise<FileUpload>
  /** @throws NotFoundError if the upload does not exist or has expired */
  get(viewer: Viewer, id: string): Promise<FileUpload>
  /**
   * Stores the next bytes. If the body is interrupted, stores the bytes that have arrived. Returns the total number
   * of stored bytes.
   * @throws NotFoundError; ConflictError if the offset is not the number of bytes stored so far;
   * StorageUnavailableError
   */
  append(viewer: Viewer, id: string, offset: number, body: Readable): Promise<number>
  /**
   * Creates the file of a complete upload, unless the file already exists. Returns the file.
   * @throws the errors of `Uploads.upload`
   */
  finish(viewer: Viewer, id: string): Promise<File>
  /** Cancels an upload. */
  cancel(viewer: Viewer, id: string): Promise<void>
  /** Deletes a batch of expired uploads. */
  sweep(): Promise<void>
}

const WRONG_OFFSET =
  'The Upload-Offset differs from that of the upload: request the current offset with HEAD, and continue there.'
const UPLOAD_LIFETIME_MS = 24 * 3_600_000
const MOST_OPEN = 50
const MOST_PARTS = 1000
const SWEPT_AT_ONCE = 50
const NO_SUCH_UPLOAD = 'There is no such upload, or it has expired.'

interface ResumableParts {
  uploads: Pick<Uploads, 'upload' | 'inPlace'>
  sharedStorage: Pick<SharedStorage, 'check'>
}

export function createResumableUploads(
  platform: Platform,
  { uploads, sharedStorage }: ResumableParts,
): ResumableUploads {
  const { db, files, clock, config, logger } = platform
  const { maxFileBytes } = config.limits

  async function get(viewer: Viewer, id: string): Promise<FileUpload> {
    const row = prefixOf(id) === 'fil' ? await db.prisma.fileUpload.findUnique({ where: { id } }) : null
    const isVisible = row !== null && row.ownerId === viewer.id && row.expiresAt.getTime() > clock.now()
    if (!isVisible) throw new NotFoundError(NO_SUCH_UPLOAD)
    return row
  }

  async function deleteParts(upload: FileUpload): Promise<void> {
    for (const key of keysOf(upload)) await files.delete(key)
  }

  const fileOf = (id: string) => db.prisma.file.findUnique({ where: { id } })

  /**
   * Creates the file of a complete upload from its parts. Other requests and processes may do the same concurrently.
   */
  async function create(viewer: Viewer, upload: FileUpload): Promise<File> {
    const { id, name, size: bytes } = upload
    const body = Readable.from(bytesOf(upload), { objectMode: false })
    try {
      return await uploads.upload(viewer, { id, name, body, bytes })
    } catch (error) {
      const made = await fileOf(id)
      if (made === null) throw error
      return made
    }
  }

  /** Deletes the parts of an upload whose file exists. If this fails, the parts stay until the upload expires. */
  async function deleteSpentParts(upload: FileUpload): Promise<void> {
    try {
      await deleteParts(upload)
      await clearParts(db.prisma, upload.id)
    } catch (error) {
      logger.warn({ uploadId: upload.id, error: messageOf(error) }, 'could not delete the parts of a complete upload')
    }
  }

  async function* bytesOf(upload: FileUpload): AsyncGenerator<Buffer> {
    for (const key of keysOf(upload)) {
      const part = await files.read(key)
      if (part === null) throw new NotFoundError(NO_SUCH_UPLOAD)
      for await (const chunk of part) yield chunk as Buffer
    }
  }

  async function append(
    viewer: Viewer,
    { id, offset, body, signal }: { id: string; offset: number; body: Readable; signal: AbortSignal },
  ): Promise<number> {
    const upload = await get(viewer, id)
    if (upload.received !== offset) throw new ConflictError(WRONG_OFFSET)
    if (upload.parts.length >= MOST_PARTS)
      throw new LimitExceededError(`An upload can have at most ${MOST_PARTS} parts: start again with larger parts.`)
    const received = await receiveFile(files, body, {
      mostBytes: upload.size - offset,
      keepsBrokenOff: true,
      signal,
    }).catch((error) => {
      // The body contained no bytes.
      if (error instanceof BadInputError && !(error instanceof FileTooLargeError)) return null
      throw error
    })
    if (received === null) return offset
    const key = partKey(id, offset, offset + received.size)
    try {
      await files.put(key, received)
      if (await addPart(db.prisma, { id, offset, bytes: received.size })) return offset + received.size
      const now = await db.prisma.fileUpload.findUnique({ where: { id } })
      if (now === null || !keysOf(now).includes(key)) await files.delete(key)
      throw new ConflictError(WRONG_OFFSET)
    } finally {
      await rm(received.path, { force: true })
    }
  }

  return {
    newId: () => newId('fil'),
    lifetimeMs: UPLOAD_LIFETIME_MS,
    get,
    async begin(viewer, { id, name, size }) {
      if (viewer.scope !== 'HUMAN') throw new ForbiddenError('Only people can upload files: use the token of a human.')
      if (size > maxFileBytes) throw new FileTooLargeError(maxFileBytes)
      if (!(size > 0)) throw new BadInputError('The file is empty.')
      await sharedStorage.check()
      const now = clock.now()
      const where = { ownerId: viewer.id, fileId: null, expiresAt: { gt: new Date(now) } }
      return db.transaction(async (tx) => {
        await lockUploads(tx, viewer.id)
        if ((await tx.fileUpload.count({ where })) >= MOST_OPEN)
          throw new LimitExceededError(
            `You can have at most ${MOST_OPEN} unfinished uploads: finish or cancel one first.`,
          )
        return insertUpload(tx, {
          id,
          ownerId: viewer.id,
          name: name.slice(0, 1000).replaceAll('\0', '').toWellFormed(),
          size,
          createdAt: new Date(now),
          expiresAt: new Date(now + UPLOAD_LIFETIME_MS),
        })
      })
    },
    append: (viewer, id, offset, body) =>
      uploads.inPlace(viewer.id, (signal) => append(viewer, { id, offset, body, signal })),
    async finish(viewer, id) {
      const upload = await get(viewer, id)
      // If a process died before recording the file's id, the file can already exist.
      const made = await fileOf(id)
      if (upload.fileId !== null) {
        if (made === null) throw new NotFoundError(NO_SUCH_UPLOAD)
        return made
      }
      if (upload.received < upload.size) throw new ConflictError('The upload is not complete.')
      const file = made ?? (await create(viewer, upload))
      await finishUpload(db.prisma, id, file.id)
      await deleteSpentParts(upload)
      return file
    },
    async cancel(viewer, id) {
      const upload = await get(viewer, id)
      await deleteParts(upload)
      await deleteUpload(db.prisma, id)
    },
    async sweep() {
      const where = { expiresAt: { lte: new Date(clock.now()) } }
      for (const upload of await db.prisma.fileUpload.findMany({ where, take: SWEPT_AT_ONCE })) {
        await deleteParts(upload)
        await deleteUpload(db.prisma, upload.id)
      }
    },
  }
}

/** Returns the keys of an upload's parts in order. */
const keysOf = ({ id, parts, received }: FileUpload): string[] =>
  parts.map((from, index) => partKey(id, from, parts[index + 1] ?? received))

import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Viewer } from '../access/viewer.ts'
import type { SharedStorage } from '../files/shared-storage.ts'
import { type ReceivedFile, receiveFile } from '../files/stored-bytes.ts'
import { storeReceived } from '../files/storing.ts'
import type { File } from '../generated/prisma/client.ts'
import { FileTooLargeError, ForbiddenError, RateLimitedError } from '../lib/errors.ts'
import { createFairPlaces, type FairPlaces } from '../lib/fair-places.ts'
import { cleanFileName } from '../lib/file-name.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { countUploadedBytes, insertFile, type NewFile, touchObjectSql } from '../stores/file-store.ts'

export interface UploadInput {
  /** The id of the file. By default, the server generates one. */
  id?: string
  name: string
  body: Readable
  /** The size that the client has announced, or null if it is unknown. */
  bytes: number | null
  signal?: AbortSignal
}

/** Stores files that people upload or agents create. */
export interface Uploads {
  /**
   * Stores a file that the viewer can then send with a message. Records nothing if only a part of the file could be
   * stored.
   * @throws ForbiddenError unless the viewer is a human; BadInputError for an empty file; FileTooLargeError;
   * RateLimitedError if the viewer exceeds the bytes per day or the number of concurrent uploads;
   * StorageUnavailableError; the error of `body`
   */
  upload(viewer: Viewer, input: UploadInput): Promise<File>
  /**
   * Stores bytes that an agent or one of its tools has created. Counts them towards the agent's daily limit. The
   * caller writes the row together with the message or the call.
   * @throws the errors of `upload`; the reason of the signal
   */
  createBy(agentId: string, input: CreatedFile): Promise<NewFile>
  /** Runs a function that receives a part of a file. All these functions share the limit of concurrent uploads. */
  inPlace: FairPlaces['run']
}

export interface CreatedFile {
  /** The id of the file. By default, the server generates one. */
  id?: string
  name: string
  bytes: Uint8Array
  signal?: AbortSignal
  /**
   * If this signal is given, the text is extracted only while no upload needs extraction. If the signal aborts first,
   * the file has no text.
   */
  textInBackground?: AbortSignal
}

interface Owner {
  id: string
  /** The name of the file. */
  name: string
  fileId?: string
}

type Received = Omit<UploadInput, 'id' | 'name'> & Pick<CreatedFile, 'textInBackground'>

/**
 * The maximum number of concurrent uploads. Each upload, and each part of a resumable one, occupies a scratch file on
 * this machine until it is stored.
 */
const MOST_AT_ONCE = 64
const MOST_OF_VIEWER_AT_ONCE = 24
const DAY_MS = 86_400_000

export function createUploads(platform: Platform, { sharedStorage }: { sharedStorage: SharedStorage }): Uploads {
  const { db, files, clock, config } = platform
  const { maxFileBytes, maxFileBytesPerDay } = config.limits
  const places = createFairPlaces({
    most: MOST_AT_ONCE,
    mostOfOne: MOST_OF_VIEWER_AT_ONCE,
    refusal: 'Too many uploads are in progress. Wait until some have finished.',
  })

  const today = () => new Date(clock.now()).toISOString().slice(0, 10)

  function tooMuchToday(): RateLimitedError {
    const leftMs = DAY_MS - (clock.now() % DAY_MS)
    return new RateLimitedError(
      `You may upload at most ${maxFileBytesPerDay} bytes a day (PARLEY_MAX_FILE_BYTES_PER_DAY). Try again after midnight, UTC.`,
      leftMs,
    )
  }

  /**
   * Checks the daily limit. The bytes are counted later, when the file is recorded.
   * @throws RateLimitedError if this number of bytes would exceed the limit
   */
  async function checkDay(ownerId: string, bytes: number): Promise<void> {
    const row = await db.prisma.uploadedBytes.findUnique({
      where: { ownerId_day: { ownerId, day: new Date(today()) } },
    })
    if (Number(row?.bytes ?? 0) + bytes > maxFileBytesPerDay) throw tooMuchToday()
  }

  async function store(received: ReceivedFile, owner: Owner, background?: AbortSignal): Promise<NewFile> {
    const touch = (hash: string, size: number) => db.query(touchObjectSql(hash, size))
    const facts = await storeReceived(files, received, touch, background)
    return {
      id: owner.fileId ?? newId('fil'),
      ownerId: owner.id,
      name: cleanFileName(owner.name),
      createdAt: new Date(clock.now()),
      ...facts,
    }
  }

  /** Counts the bytes of a file towards its owner's daily limit. @throws RateLimitedError */
  async function countToday(tx: Tx, { ownerId, size }: Pick<NewFile, 'ownerId' | 'size'>): Promise<void> {
    const counted = { ownerId, day: today(), bytes: size, most: maxFileBytesPerDay }
    if (!(await countUploadedBytes(tx, counted))) throw tooMuchToday()
  }

  /** Receives and stores a file of an owner, then calls `record` with it. */
  async function take<T>(
    owner: Owner,
    { body, bytes, signal, textInBackground }: Received,
    record: (file: NewFile) => Promise<T>,
  ): Promise<T> {
    return places.run(owner.id, async (cutOff) => {
      const ended = signal === undefined ? cutOff : AbortSignal.any([signal, cutOff])
      if ((bytes ?? 0) > maxFileBytes) throw new FileTooLargeError(maxFileBytes)
      await sharedStorage.check()
      await checkDay(owner.id, bytes ?? 1)
      const received = await receiveFile(files, body, { mostBytes: maxFileBytes, signal: ended })
      try {
        await checkDay(owner.id, received.size)
        const file = await store(received, owner, textInBackground)
        ended.throwIfAborted()
        return await record(file)
      } finally {
        await rm(received.path, { force: true })
      }
    })
  }

  return {
    inPlace: (viewerId, work) => places.run(viewerId, work),
    async upload(viewer, { id, name, ...input }) {
      if (viewer.scope !== 'HUMAN') throw new ForbiddenError('Only people can upload files: use the token of a human.')
      return take({ id: viewer.id, name, ...(id === undefined ? {} : { fileId: id }) }, input, (file) =>
        db.transaction(async (tx) => {
          await countToday(tx, file)
          return insertFile(tx, file)
        }),
      )
    },
    createBy: (agentId, { id, name, bytes, ...how }) =>
      take(
        { id: agentId, name, ...(id === undefined ? {} : { fileId: id }) },
        { body: Readable.from([bytes]), bytes: bytes.byteLength, ...how },
        async (file) => {
          await db.transaction((tx) => countToday(tx, file))
          return file
        },
      ),
  }
}

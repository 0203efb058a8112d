import { messageOf } from '../lib/errors.ts'
import { StorageUnavailableError } from '../platform/file-storage/file-storage.ts'
import type { Platform } from '../platform/platform.ts'
import { endStorageUseSql, noteStorageUseSql } from '../stores/file-store.ts'

/** Checks that all processes on the database use the same storage (PARLEY_FILES). */
export interface SharedStorage {
  /** @throws StorageUnavailableError if the storage is unavailable or another process uses a different one */
  check(): Promise<void>
  close(): Promise<void>
}

const NOTED_EVERY_MS = 10_000
/** A process that has not been seen for this long is considered ended. */
const SEEN_SECONDS = 35
const NOT_SHARED =
  'The processes of this server do not share PARLEY_FILES: set it to the same bucket, or to a directory on a shared volume, in each of them.'

/**
 * Each process periodically records the id of its storage in the database. With an embedded database, there is only one
 * process.
 */
export function createSharedStorage({ db, files, worker, logger }: Platform): SharedStorage {
  const isAlone = db.kind === 'pglite'

  async function note(): Promise<string> {
    const storageId = await files.identity()
    await db.query(noteStorageUseSql(worker, storageId))
    return storageId
  }

  const noteQuietly = () =>
    note().catch((error) =>
      logger.debug({ error: messageOf(error) }, 'could not record which file storage this process uses'),
    )
  const noted = isAlone ? null : noteQuietly()
  const timer = isAlone ? undefined : setInterval(noteQuietly, NOTED_EVERY_MS).unref()

  return {
    async check() {
      if (isAlone) {
        await files.identity()
        return
      }
      const storageId = await note()
      const others = await db.prisma.$queryRaw<{ process: number }[]>`
        SELECT process FROM "FileStorageUse" WHERE "storageId" <> ${storageId}
          AND "seenAt" > now() - make_interval(secs => ${SEEN_SECONDS}) LIMIT 1`
      if (others.length > 0) throw new StorageUnavailableError(null, NOT_SHARED)
    },
    async close() {
      clearInterval(timer)
      await noted
      if (!isAlone) await db.query(endStorageUseSql(worker)).catch(() => {})
    },
  }
}

import type { SharedStorage } from '../files/shared-storage.ts'
import { keyOfHash } from '../files/stored-bytes.ts'
import type { ResumableUploads } from '../flows/resumable-uploads.ts'
import type { Platform } from '../platform/platform.ts'
import { deleteOldCounts, deleteUnneededObject, deleteUnsentFiles, unneededObjectsSql } from '../stores/file-store.ts'

/**
 * Deletes files that no message uses: unsent files, stored bytes, unfinished uploads, and scratch files of dead
 * processes.
 */
export interface FileSweep {
  /**
   * Deletes a limited number of each kind. The next sweep continues with the rest.
   * @throws StorageUnavailableError
   */
  sweep(signal?: AbortSignal): Promise<void>
}

const UNSENT_FOR_MS = 24 * 3_600_000
/** The age at which a scratch file is deleted. No request and no part of an upload takes this long. */
const SCRATCH_FOR_MS = 6 * 3_600_000
const AT_ONCE = 200

export function createFileSweep(
  { db, files, clock }: Platform,
  {
    resumable,
    sharedStorage,
  }: { resumable: Pick<ResumableUploads, 'sweep'>; sharedStorage: Pick<SharedStorage, 'check'> },
): FileSweep {
  return {
    async sweep(signal) {
      await deleteUnsentFiles(db.prisma, new Date(clock.now() - UNSENT_FOR_MS), AT_ONCE)
      await deleteOldCounts(db.prisma, new Date(clock.now()))
      const unneeded = await db.query<{ hash: string }>(unneededObjectsSql(AT_ONCE))
      // If this process used a different storage than the others, it could not delete their objects. So it first checks
      // that the storage is shared.
      await sharedStorage.check()
      for (const { hash } of unneeded) {
        if (signal?.aborted) return
        // The rows and the object are deleted in one transaction. An upload of the same bytes waits for its lock and
        // then stores the bytes again.
        await db.transaction(async (tx) => {
          if (await deleteUnneededObject(tx, hash)) await files.delete(keyOfHash(hash))
        })
      }
      await resumable.sweep()
      // The ages of scratch files are measured by the machine's clock, not by the platform's `clock`.
      await files.sweepScratch(new Date(Date.now() - SCRATCH_FOR_MS))
    },
  }
}

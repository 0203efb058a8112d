import type { SharedStorage } from '../files/shared-storage.ts'
import { keyOfHash } from '../files/stored-bytes.ts'
import type { ResumableUploads } from '../flows/resumable-uploads.ts'
import type { Platform } from '../platform/platform.ts'
import { deleteOldCounts, deleteUnneededObject, deleteUnsentFiles, unneededObjectsSql } from '../stores/file-store.ts'

/** Deletes data that no message uses: unsent files, stored bytes, unfinished uploads, scratch files of processes that died. */
export interface FileSweep {
  /** Deletes some of each; the next sweep continues. @throws StorageUnavailableError */
  sweep(signal?: AbortSignal): Promise<void>
}

const UNSENT_FOR_MS = 24 * 3_600_000
/** Longer than a request or a part of an upload takes. */
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
      // Objects and parts in another storage cannot be deleted from here.
      await sharedStorage.check()
      for (const { hash } of unneeded) {
        if (signal?.aborted) return
        // All in one transaction. An upload of the same bytes waits for its lock, and stores the bytes again afterwards.
        await db.transaction(async (tx) => {
          if (await deleteUnneededObject(tx, hash)) await files.delete(keyOfHash(hash))
        })
      }
      await resumable.sweep()
      // File systems have the clock of the machine.
      await files.sweepScratch(new Date(Date.now() - SCRATCH_FOR_MS))
    },
  }
}

import { createHash } from 'node:crypto'
import { DomainError, messageOf } from '../lib/errors.ts'
import type { FileNote, KeptFile, ReturnedFile } from '../lib/tool-file.ts'
import { MOST_KEPT_FILES } from '../lib/tool-file.ts'
import { isOutage } from '../platform/database-errors.ts'
import { StorageUnavailableError } from '../platform/file-storage/file-storage.ts'
import type { Platform } from '../platform/platform.ts'
import { insertFilesOfCall, type NewFile } from '../stores/file-store.ts'
import type { Uploads } from './upload-file.ts'

/** Files that tools return. */
export interface KeepFiles {
  /**
   * Stores the binary content of a result as files of the call, which is not settled yet. The call has taken effect, so a file
   * that is too large, exceeds the agent's bytes of the day, or finds the storage unavailable becomes a note.
   * @throws database errors
   */
  keepFiles(
    call: { id: string; agentId: string },
    returned: readonly ReturnedFile[],
  ): Promise<readonly (KeptFile | FileNote)[]>
}

export function createKeepFiles(
  { db, logger }: Pick<Platform, 'db' | 'logger'>,
  { uploads }: { uploads: Pick<Uploads, 'createBy'> },
): KeepFiles {
  async function store(call: { id: string; agentId: string }, index: number, { name, content }: ReturnedFile) {
    try {
      return await uploads.createBy(call.agentId, { id: idOfFile(call.id, index), name, bytes: content })
    } catch (error) {
      if (isOutage(error) || !(error instanceof DomainError || error instanceof StorageUnavailableError)) throw error
      logger.warn({ toolCallId: call.id, error: messageOf(error) }, 'could not store a file that a tool returned')
      return { note: `[The file ${JSON.stringify(name)} was not stored: ${error.message}]` }
    }
  }

  return {
    async keepFiles(call, returned) {
      if (returned.length === 0) return []
      const stored: (NewFile | FileNote)[] = []
      for (const [index, one] of returned.slice(0, MOST_KEPT_FILES).entries())
        stored.push(await store(call, index, one))
      const left = returned.length - stored.length
      if (left > 0)
        stored.push({ note: `[${left} more files were not stored: a result has at most ${MOST_KEPT_FILES}.]` })
      const files = stored.filter((one) => 'id' in one)
      const isKept = files.length === 0 || (await db.transaction((tx) => insertFilesOfCall(tx, call.id, files)))
      if (!isKept) return []
      return stored.map((one) =>
        'id' in one ? { fileId: one.id, name: one.name, mediaType: one.mediaType } : { note: one.note },
      )
    },
  }
}

/** Returns the id of a file of a call: the same if the call is repeated after a crash. */
function idOfFile(callId: string, index: number): string {
  const digits = callId.slice(callId.indexOf('_') + 1)
  return `fil_${digits.slice(0, 20)}${createHash('md5').update(`${callId} ${index}`).digest('hex').slice(0, 12)}`
}

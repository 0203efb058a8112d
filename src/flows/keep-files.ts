import { createHash } from 'node:crypto'
import { unlessAborted } from '../lib/async.ts'
import { DomainError, messageOf } from '../lib/errors.ts'
import type { FileNote, KeptFile, ReturnedFile } from '../lib/tool-file.ts'
import { MOST_KEPT_FILES } from '../lib/tool-file.ts'
import { StorageUnavailableError } from '../platform/file-storage/file-storage.ts'
import type { Platform } from '../platform/platform.ts'
import type { NewFile } from '../stores/file-store.ts'
import type { CreatedFile, Uploads } from './upload-file.ts'

/** The files of a tool result: the entries for the row of the call, and the rows for the stored files. */
export interface Kept {
  entries: readonly (KeptFile | FileNote)[]
  rows: readonly NewFile[]
}

/** Stores files that tools return. */
export interface KeepFiles {
  /**
   * Stores the bytes of a result's files. The caller writes the returned rows together with the call's result. The
   * call has already taken effect, so a problem with a file does not fail the call. Instead, a note replaces a file
   * that is too large, exceeds the agent's daily limit, takes too long, or cannot be stored because storage or the
   * database is unavailable.
   * @throws the reason of the signal
   */
  keepFiles(
    call: { id: string; agentId: string },
    returned: readonly ReturnedFile[],
    signal: AbortSignal,
  ): Promise<Kept>
}

/** The maximum time for storing all files of one result. */
const LONGEST_STORING_MS = 60_000
/** The part of LONGEST_STORING_MS that may be spent on extracting texts from the files. */
const LONGEST_TEXTS_MS = 15_000

export function createKeepFiles(
  { logger }: Pick<Platform, 'logger'>,
  { uploads }: { uploads: Pick<Uploads, 'createBy'> },
): KeepFiles {
  async function store(
    call: { id: string; agentId: string },
    file: CreatedFile,
    { signal, late }: { signal: AbortSignal; late: AbortSignal },
  ): Promise<NewFile | FileNote> {
    const ended = AbortSignal.any([signal, late])
    try {
      return await unlessAborted(ended, uploads.createBy(call.agentId, { ...file, signal: ended }))
    } catch (error) {
      signal.throwIfAborted()
      logger.warn({ toolCallId: call.id, error: messageOf(error) }, 'could not store a file that a tool returned')
      return { note: `[The file ${JSON.stringify(file.name)} was not stored: ${reasonOf(error, late)}]` }
    }
  }

  return {
    async keepFiles(call, returned, signal) {
      if (returned.length === 0) return { entries: [], rows: [] }
      const late = AbortSignal.timeout(LONGEST_STORING_MS)
      const textInBackground = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_TEXTS_MS)])
      const stored: (NewFile | FileNote)[] = []
      for (const [index, { name, content }] of returned.slice(0, MOST_KEPT_FILES).entries()) {
        const file = { id: idOfFile(call.id, index), name, bytes: content, textInBackground }
        stored.push(await store(call, file, { signal, late }))
      }
      const left = returned.length - stored.length
      if (left > 0)
        stored.push({ note: `[${left} more files were not stored: a result has at most ${MOST_KEPT_FILES}.]` })
      return {
        entries: stored.map((one) =>
          'id' in one ? { fileId: one.id, name: one.name, mediaType: one.mediaType } : { note: one.note },
        ),
        rows: stored.filter((one) => 'id' in one),
      }
    },
  }
}

/** Returns the reason in words for the model, without internal details. */
function reasonOf(error: unknown, late: AbortSignal): string {
  if (error instanceof DomainError || error instanceof StorageUnavailableError) return error.message
  return late.aborted ? 'the files of this result took too long.' : 'an unexpected error occurred.'
}

/** Returns the id for a call's file. A call that is repeated after a crash gets the same ids. */
function idOfFile(callId: string, index: number): string {
  const digits = callId.slice(callId.indexOf('_') + 1)
  return `fil_${digits.slice(0, 20)}${createHash('md5').update(`${callId} ${index}`).digest('hex').slice(0, 12)}`
}

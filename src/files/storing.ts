import { createHash } from 'node:crypto'
import type { FileStorage } from '../platform/file-storage/file-storage.ts'
import type { NewFile } from '../stores/file-store.ts'
import { inspectFile } from './inspection.ts'
import { keyOfHash, type ReceivedFile } from './stored-bytes.ts'

/** Properties that are determined from the bytes of a file. */
export type FileFacts = Pick<NewFile, 'mediaType' | 'size' | 'hash' | 'width' | 'height' | 'thumbnailHash' | 'text'>

/**
 * Inspects received bytes, and stores them and their thumbnail by hash. `touch` records each hash before its bytes are
 * stored. `background` has the same meaning as for `textOfFile`.
 */
export async function storeReceived(
  files: Pick<FileStorage, 'put'>,
  received: ReceivedFile,
  touch: (hash: string, size: number) => Promise<unknown>,
  background?: AbortSignal,
): Promise<FileFacts> {
  const { size, sha256: hash } = received
  const { mediaType, width, height, thumbnail, text } = await inspectFile(received.path, background)
  const thumbnailHash = thumbnail === null ? null : createHash('sha256').update(thumbnail).digest('hex')
  await touch(hash, size)
  await files.put(keyOfHash(hash), received)
  if (thumbnail !== null && thumbnailHash !== null) {
    await touch(thumbnailHash, thumbnail.byteLength)
    await files.put(keyOfHash(thumbnailHash), thumbnail)
  }
  return { mediaType, size, hash, width, height, thumbnailHash, text }
}

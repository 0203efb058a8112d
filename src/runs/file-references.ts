import type { FilePart } from 'ai'

/** The media type in which models receive images. */
export const PICTURE_TYPE = 'image/jpeg'
const PREFIX = 'parley-file:'

/**
 * Returns an image in a user message, referenced by the id of its file. Journals contain no bytes, so a deleted file
 * is no longer sent.
 */
export const picturePart = (fileId: string): FilePart => ({
  type: 'file',
  mediaType: PICTURE_TYPE,
  data: `${PREFIX}${fileId}`,
})

/** Returns the id of the file to which a part refers; null for any other part. */
export function referredFile(part: { type: string; data?: unknown }): string | null {
  const isReference = part.type === 'file' && typeof part.data === 'string' && part.data.startsWith(PREFIX)
  return isReference ? (part.data as string).slice(PREFIX.length) : null
}

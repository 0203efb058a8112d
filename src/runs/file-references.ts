import type { FilePart } from 'ai'

/** The media type of images that are sent to models. */
export const PICTURE_TYPE = 'image/jpeg'
const PREFIX = 'parley-file:'

/**
 * Returns a part of a user message that refers to an image by the id of its file. Journals do not contain the bytes, so
 * a deleted file is no longer sent.
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

import type { FilePart } from 'ai'

/** The media type of images as models receive them. */
export const PICTURE_TYPE = 'image/jpeg'
const PREFIX = 'parley-file:'

/** An image in a user's message, by the id of its file. Journals contain no bytes, so a deleted file is no longer shown. */
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

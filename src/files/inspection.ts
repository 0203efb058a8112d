import { textOfFile } from './file-text.ts'
import { inspectImage, isDecodedImage } from './images.ts'
import { mediaTypeOf } from './media-type.ts'

/** The result of inspecting the bytes of a file. */
export interface Inspected {
  mediaType: string
  width: number | null
  height: number | null
  thumbnail: Buffer | null
  text: string | null
}

/**
 * Inspects a file on this machine, within limits of time and memory. `background` has the same meaning as for
 * `textOfFile`.
 */
export async function inspectFile(path: string, background?: AbortSignal): Promise<Inspected> {
  const mediaType = await mediaTypeOf(path)
  const image = isDecodedImage(mediaType) ? await inspectImage(path) : null
  const text = image === null ? await textOfFile(path, mediaType, background) : null
  const { width = null, height = null, thumbnail = null } = image ?? {}
  return { mediaType, width, height, thumbnail, text }
}

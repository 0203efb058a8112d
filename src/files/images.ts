import sharp, { type Sharp } from 'sharp'

/** An image with its display size in pixels and a thumbnail. */
export interface InspectedImage {
  width: number
  height: number
  /** A WebP image without metadata; null if there was no time or the image could not be decoded. */
  thumbnail: Buffer | null
}

/** The media types that are decoded. Their decoders are well tested. */
const DECODED = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']
export const isDecodedImage = (mediaType: string): boolean => DECODED.includes(mediaType)

/** Larger images are stored but not decoded, because 50 megapixels take about 200 MB of memory. */
const MOST_PIXELS = 50_000_000
const LONGEST_DECODING_SECONDS = 10
const THUMBNAIL_PIXELS = 512
/**
 * Side lengths in pixels and qualities for a person's picture, best first. The first result that is small enough is
 * used.
 */
const PORTRAITS: readonly (readonly [number, number])[] = [
  [96, 80],
  [96, 55],
  [64, 55],
  [48, 40],
  [32, 30],
]
/** The maximum side length in pixels. Models downscale larger images anyway. */
const MODEL_PIXELS = 1568
/** The maximum number of images that wait to be decoded. One is decoded at a time. */
const MOST_WAITING = 200

// Without this, libvips caches decoded images and open files.
sharp.cache(false)
sharp.concurrency(1)

let last: Promise<unknown> = Promise.resolve()
let waiting = 0

/** Runs one task at a time. Returns null if too many tasks are waiting. */
async function inTurn<T>(task: () => Promise<T>): Promise<T | null> {
  if (waiting >= MOST_WAITING) return null
  waiting += 1
  const turn = last.then(task, task)
  last = turn.catch(() => {})
  try {
    return await turn
  } finally {
    waiting -= 1
  }
}

const opened = (source: string | Buffer): Sharp =>
  sharp(source, { limitInputPixels: MOST_PIXELS, failOn: 'error', pages: 1 })
    .timeout({ seconds: LONGEST_DECODING_SECONDS })
    .autoOrient()

const scaled = (source: string | Buffer, pixels: number) =>
  opened(source).resize({ width: pixels, height: pixels, fit: 'inside', withoutEnlargement: true })

/** Inspects the first frame of an image. Returns null if the image is too large or cannot be decoded. */
export async function inspectImage(path: string): Promise<InspectedImage | null> {
  return inTurn(async () => {
    const { autoOrient } = await opened(path).metadata()
    const thumbnail = await scaled(path, THUMBNAIL_PIXELS)
      .webp({ quality: 80 })
      .toBuffer()
      .catch(() => null)
    return thumbnail === null ? null : { width: autoOrient.width, height: autoOrient.height, thumbnail }
  }).catch(() => null)
}

/**
 * Returns an image in the form for models: a JPEG of at most 1,568 pixels per side, without metadata. Returns null if
 * there is no image or if it cannot be decoded. Reads the image only when its turn comes, so that waiting images take
 * no memory.
 */
export async function pictureForModel(read: () => Promise<Buffer | null>): Promise<Buffer | null> {
  return inTurn(async () => {
    const source = await read()
    if (source === null) return null
    return scaled(source, MODEL_PIXELS).flatten({ background: '#ffffff' }).jpeg({ quality: 85 }).toBuffer()
  }).catch(() => null)
}

/**
 * Converts an image to the square picture of a person: WebP without metadata, of at most `mostBytes`. Returns null if
 * the image cannot be decoded or too many images are waiting.
 */
export async function portraitOf(source: Buffer, mostBytes: number): Promise<Buffer | null> {
  return inTurn(async () => {
    for (const [pixels, quality] of PORTRAITS) {
      const portrait = await opened(source).resize(pixels, pixels, { fit: 'cover' }).webp({ quality }).toBuffer()
      if (portrait.byteLength <= mostBytes) return portrait
    }
    return null
  }).catch(() => null)
}

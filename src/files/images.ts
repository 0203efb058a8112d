import sharp, { type Sharp } from 'sharp'

/** An image with its displayed size in pixels and a thumbnail. */
export interface InspectedImage {
  width: number
  height: number
  /** WebP, without metadata; null if there was no time, or the image could not be decoded. */
  thumbnail: Buffer | null
}

/** The media types that are decoded, each by a well-tested decoder. */
const DECODED = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']
export const isDecodedImage = (mediaType: string): boolean => DECODED.includes(mediaType)

/** Larger images are stored but not decoded: 50 megapixels take about 200 MB. */
const MOST_PIXELS = 50_000_000
const LONGEST_DECODING_SECONDS = 10
const THUMBNAIL_PIXELS = 512
/** Sides in pixels and qualities of a person's picture, from the best: the first that is small enough is used. */
const PORTRAITS: readonly (readonly [number, number])[] = [
  [96, 80],
  [96, 55],
  [64, 55],
  [48, 40],
  [32, 30],
]
/** Models resize larger pictures themselves. */
const MODEL_PIXELS = 1568
/** How many images this process decodes at a time, and how many more may wait. */
const MOST_WAITING = 200

// Without this, libvips caches decoded images and open files.
sharp.cache(false)
sharp.concurrency(1)

let last: Promise<unknown> = Promise.resolve()
let waiting = 0

/** Runs one task at a time; null if too many wait. */
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
 * Returns an image as models receive it: a JPEG of at most 1,568 pixels per side, without metadata; null if there is none, or
 * it cannot be decoded. Reads the image only when its turn comes, so that waiting images take no memory.
 */
export async function pictureForModel(read: () => Promise<Buffer | null>): Promise<Buffer | null> {
  return inTurn(async () => {
    const source = await read()
    if (source === null) return null
    return scaled(source, MODEL_PIXELS).flatten({ background: '#ffffff' }).jpeg({ quality: 85 }).toBuffer()
  }).catch(() => null)
}

/**
 * Returns an image as the square picture of a person: WebP without metadata, of at most `mostBytes`; null if it cannot be
 * decoded, or too many images wait.
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

/**
 * A file that a tool returned. Models that accept files see the file, and all others see its description from
 * `fileInWords`.
 */
export interface ToolFile {
  mediaType: string
  bytes: number
  /** The content in base64. */
  data: string
}

/** Bytes that a tool returned. They are stored as a file of the call. */
export interface ReturnedFile {
  name: string
  content: Uint8Array
}

/** A stored file of a call. The call's result refers to the file in this form. */
export interface KeptFile {
  fileId: string
  name: string
  mediaType: string
}

/** A note that a part of a result was not stored, with the reason. */
export interface FileNote {
  note: string
}

/** An entry about a file of a call's result, as the call's row stores it. */
export type ResultFile = ToolFile | KeptFile | FileNote

/** The maximum number of stored files of one result. */
export const MOST_KEPT_FILES = 20

/** The maximum total size of the files in one result. */
export const LARGEST_FILES_BYTES = 1_048_576

/** Describes a file by its type and size. */
export function fileInWords({ mediaType, bytes }: Pick<ToolFile, 'mediaType' | 'bytes'>): string {
  return `A file of type ${mediaType}, ${bytes} bytes${bytes < 1024 ? '' : ` (${sizeInWords(bytes)})`}.`
}

function sizeInWords(bytes: number): string {
  return bytes < 1_048_576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1_048_576).toFixed(1)} MB`
}

/**
 * Whether the bytes begin like a file of this type. Providers reject a prompt with a file that does not match its type.
 */
const BEGINNINGS: Record<string, (beginning: string) => boolean> = {
  'image/png': (beginning) => beginning.startsWith('\x89PNG\r\n\x1a\n'),
  'image/jpeg': (beginning) => beginning.startsWith('\xff\xd8\xff'),
  'image/gif': (beginning) => /^GIF8[79]a/.test(beginning),
  'image/webp': (beginning) => /^RIFF.{4}WEBP/s.test(beginning),
  'application/pdf': (beginning) => beginning.startsWith('%PDF-'),
}

/** Returns the file if models can read its type and its bytes match the type; otherwise null. */
export function toolFile(mediaType: string, content: Uint8Array): ToolFile | null {
  const beginning = Buffer.from(content.subarray(0, 16)).toString('latin1')
  const isWhatItSays = BEGINNINGS[mediaType]?.(beginning) === true
  if (!isWhatItSays || content.byteLength > LARGEST_FILES_BYTES) return null
  return { mediaType, bytes: content.byteLength, data: Buffer.from(content).toString('base64') }
}

const EXTENSIONS: Record<string, string> = {
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'audio/mpeg': 'mp3',
  'application/gzip': 'gz',
}

/**
 * Returns a name for bytes that a tool returned: the last segment of their address or, without one, a name made from
 * their type.
 */
export function nameOfReturned(mediaType: string, address: string | undefined): string {
  const path = address !== undefined && URL.canParse(address) ? new URL(address).pathname : (address ?? '')
  const last = path.split('/').at(-1) ?? ''
  if (last !== '') return decodedSegment(last)
  const [, subtype = ''] = /^[a-z]+\/(?:x-)?([a-z0-9]{1,10})$/.exec(mediaType) ?? []
  const extension = EXTENSIONS[mediaType] ?? subtype
  return extension === '' ? 'result' : `result.${extension}`
}

function decodedSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

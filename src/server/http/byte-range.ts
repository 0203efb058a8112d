import type { ByteRange } from '../../platform/file-storage/file-storage.ts'

/**
 * Returns the range that a header `Range: bytes=…` requests from a file of `size` bytes. Returns null if the whole
 * file is to be sent. A header that is malformed or requests several ranges is ignored (RFC 9110, 14.2).
 */
export function byteRangeOf(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | null {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (from === '' && to === '') return null
  if (from === '') return Number(to) === 0 ? 'unsatisfiable' : { first: Math.max(0, size - Number(to)), last: size - 1 }
  if (to !== '' && Number(to) < Number(from)) return null
  if (Number(from) >= size) return 'unsatisfiable'
  return { first: Number(from), last: to === '' ? size - 1 : Math.min(Number(to), size - 1) }
}

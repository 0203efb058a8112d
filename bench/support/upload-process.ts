// A client that uploads several files at the same time: see ../uploads.ts. Each order is one round, and the answer contains its
// duration.
import { randomBytes } from 'node:crypto'
import { request } from 'node:http'

export interface UploadOrder {
  origin: string
  token: string
  /** The number of files that are uploaded at the same time. */
  files: number
  bytes: number
}

export interface UploadResult {
  ms: number
  /** The HTTP statuses of the responses. */
  statuses: number[]
}

const PIECE_BYTES = 256 * 1024

process.on('message', async ({ origin, token, files, bytes }: UploadOrder) => {
  const pieces = randomBytes(PIECE_BYTES)
  const began = performance.now()
  const statuses = await Promise.all(Array.from({ length: files }, () => upload({ origin, token, pieces, bytes })))
  process.send?.({ ms: performance.now() - began, statuses } satisfies UploadResult)
})

/** The file begins with random bytes, so that no two uploads are the same file. */
function upload(order: { origin: string; token: string; pieces: Buffer; bytes: number }): Promise<number> {
  const { origin, token, pieces, bytes } = order
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/octet-stream',
      'content-length': String(bytes),
      'x-file-name': 'measured.bin',
    }
    const sent = request(`${origin}/files`, { method: 'POST', headers, agent: false }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    sent.once('error', reject)
    let left = bytes
    const write = () => {
      while (left > 0) {
        const piece = left === bytes ? randomBytes(PIECE_BYTES) : pieces
        const part = piece.subarray(0, Math.min(left, piece.byteLength))
        left -= part.byteLength
        if (!sent.write(part)) return void sent.once('drain', write)
      }
      sent.end()
    }
    write()
  })
}

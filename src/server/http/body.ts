import type { IncomingMessage } from 'node:http'
import { LARGEST_REQUEST_BYTES } from './graphql.ts'

export class BodyTooLargeError extends Error {}

/** A request's body. @throws BodyTooLargeError past LARGEST_REQUEST_BYTES. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > LARGEST_REQUEST_BYTES) throw new BodyTooLargeError()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

import type { IncomingMessage } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import type { RequestContext } from './authentication.ts'
import { topLevelError } from './masking.ts'

/** A body that is not taken: too large (413), too slow (408), or more at once than there is memory for (503). */
export class BodyRefusedError extends Error {
  readonly status: 408 | 413 | 503
  constructor(status: 408 | 413 | 503, message: string) {
    super(message)
    this.status = status
  }
}

export interface BodyBounds {
  mostBytes: number
  /** For the whole body; absent: the server's own time for a request. */
  timeoutMs?: number
  /** Shared by all bodies that are being read. */
  budget?: BodyBudget
}

/** How many bytes may be held at a time of bodies that are not whole yet. */
export interface BodyBudget {
  left: number
}

/** A request's body. @throws BodyRefusedError past its bounds; nothing more of it is read then. */
export async function readBody(request: IncomingMessage, bounds: BodyBounds): Promise<Buffer> {
  const { mostBytes, timeoutMs, budget = { left: Number.POSITIVE_INFINITY } } = bounds
  if (Number(request.headers['content-length'] ?? 0) > mostBytes) throw tooLarge(mostBytes)
  const late = new BodyRefusedError(408, 'The body did not come in time.')
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => request.destroy(late), timeoutMs)
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length
      budget.left -= chunk.length
      if (size > mostBytes) throw tooLarge(mostBytes)
      if (budget.left < 0) throw new BodyRefusedError(503, 'Too many bodies at once: try again later.')
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  } finally {
    clearTimeout(timer)
    budget.left += size
  }
}

function tooLarge(mostBytes: number): BodyRefusedError {
  return new BodyRefusedError(413, `At most ${mostBytes / 1024} KiB.`)
}

/**
 * Reads a posted operation from its connection. The GraphQL server's own way, through streams of the web that are bounded by another
 * one, cost an eighth of a small query.
 */
export function usePostedBody(bounds: BodyBounds): Plugin<object, RequestContext> {
  return {
    onRequestParse({ request, requestParser, setRequestParser, serverContext: { req } }) {
      if (request.method !== 'POST' || requestParser === undefined || req === undefined) return
      // What it makes of a body stays as it is.
      setRequestParser(() => requestParser({ json: () => readJson(req, bounds) } as Request))
    },
  }
}

async function readJson(request: IncomingMessage, bounds: BodyBounds): Promise<unknown> {
  const body = await readBody(request, bounds).catch((error) => {
    if (!(error instanceof BodyRefusedError)) throw error
    throw topLevelError('BAD_USER_INPUT', 'Request body too large', { status: error.status })
  })
  return JSON.parse(body.toString())
}

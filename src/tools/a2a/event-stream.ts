import { unlessAborted } from '../../lib/async.ts'
import { ToolFailure } from '../tool.ts'

/** How long a server may stay silent. */
const SILENCE_MS = 30_000
/** The maximum number of characters in one event. */
const LARGEST_EVENT = 1_048_576

const SILENT = Symbol('silent')

/**
 * Returns the result of the promise; `SILENT` if it takes longer than `SILENCE_MS`.
 * @throws the promise's error, or the signal's reason
 */
async function unlessSilent<T>(work: Promise<T>, signal: AbortSignal): Promise<T | typeof SILENT> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<typeof SILENT>((resolve) => {
    timer = setTimeout(() => resolve(SILENT), SILENCE_MS)
  })
  try {
    return await unlessAborted(signal, Promise.race([work, silence]))
  } finally {
    clearTimeout(timer)
  }
}

/** Returns the result of the promise; null if it takes longer than `SILENCE_MS`. */
export async function orNullIfSilent<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  const result = await unlessSilent(work, signal)
  return result === SILENT ? null : result
}

/**
 * Yields the data of server-sent events, in lists of events that arrived together. For other lines, such as a
 * heartbeat, yields an empty list. Ends when the stream ends or is silent for `SILENCE_MS`.
 * @throws ToolFailure for an event that is too large; errors of the connection
 */
export async function* eventsIn(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<string[]> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const lines = createLines()
  try {
    for (;;) {
      const read = await orNullIfSilent(reader.read(), signal)
      if (read === null || read.done) return
      yield lines.push(decoder.decode(read.value, { stream: true }))
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Splits the text of a stream into events. */
function createLines() {
  let rest = ''
  let data: string[] = []
  let length = 0

  function take(line: string): string[] {
    if (line.startsWith('data:')) {
      data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      length += line.length
      return []
    }
    if (line !== '' || data.length === 0) return []
    const event = data.join('\n')
    data = []
    length = 0
    return [event]
  }

  return {
    /** Adds text, and returns the events that it completes. */
    push(text: string): string[] {
      const events: string[] = []
      let from = 0
      // Only the new text is searched for line ends, because a long line may arrive byte by byte.
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
        const line = rest + text.slice(from, end)
        events.push(...take(line.endsWith('\r') ? line.slice(0, -1) : line))
        rest = ''
        from = end + 1
      }
      rest += text.slice(from)
      if (rest.length + length > LARGEST_EVENT)
        throw new ToolFailure('TOO_LARGE', "An event from the agent's server is larger than 1 MiB.")
      return events
    },
  }
}

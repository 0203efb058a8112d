// A client of AG-UI that shows the raw events of a stream.
// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
export type AgUiEvent = any

export interface AgUiInput {
  threadId?: string
  runId?: string
  messages?: unknown[]
  forwardedProps?: unknown
  resume?: unknown[]
}

/** Sends a RunAgentInput. Without one, rejoins. */
export async function askAgUi(url: string, token: string | null, input: AgUiInput | null, signal?: AbortSignal) {
  const given = { threadId: 'thread', runId: crypto.randomUUID(), messages: [], state: {}, tools: [], context: [] }
  return fetch(url, {
    method: input === null ? 'GET' : 'POST',
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      'content-type': 'application/json',
      accept: 'text/event-stream',
    },
    ...(input === null ? {} : { body: JSON.stringify({ ...given, ...input }) }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** Yields the events of a stream until it ends. */
export async function* eventsOf(response: Response): AsyncGenerator<AgUiEvent, void> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(chunk, { stream: true })
    const blocks = rest.split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) if (block.startsWith('data: ')) yield JSON.parse(block.slice('data: '.length))
  }
}

export async function allEventsOf(response: Response): Promise<AgUiEvent[]> {
  const events: AgUiEvent[] = []
  for await (const event of eventsOf(response)) events.push(event)
  return events
}

/** Returns the texts of the messages in the events, by id. */
export function textsOf(events: readonly AgUiEvent[], texts: Record<string, string> = {}): Record<string, string> {
  for (const { type, messageId, delta } of events)
    if (type === 'TEXT_MESSAGE_CONTENT') texts[messageId] = (texts[messageId] ?? '') + delta
  return texts
}

export const userMessage = (content: string, id: string = crypto.randomUUID()) => ({ id, role: 'user', content })

import type { LiveEvents, ParleyClient } from '../support/parley-client.ts'
import type { Json } from './deployed.ts'

const SPACE_MESSAGES = `
  subscription Watch($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      __typename cursor
      ... on SpaceSnapshot { space { messages(last: 50) { edges { node { ...Whole } } } } }
      ... on MessagePosted { message { ...Whole } }
      ... on MessageTextDelta { messageId partIndex offset delta }
      ... on MessagePartChanged { messageId part { __typename index ... on TextPart { text } } }
      ... on MessageFinished { message { ...Whole } }
    }
  }
  fragment Whole on Message { id seq status text sender { name kind } }`

const RUN_EVENTS = `
  subscription Run($runId: ID!, $after: StreamCursor) {
    runEvents(runId: $runId, after: $after) { __typename cursor ... on RunCompleted { run { status } } }
  }`

const ACTIVITY = `
  subscription Activity($spaceId: ID!) { agentActivity(spaceId: $spaceId) { active agent { name } runs { id status } } }`

/** An event of a space, without types. */
export type SpaceEvent = Json

export const watchSpace = (client: ParleyClient, spaceId: string, after?: string): LiveEvents<Json> =>
  client.subscribe<Json, object>(SPACE_MESSAGES, { spaceId, after })
export const watchRun = (client: ParleyClient, runId: string, after?: string): LiveEvents<Json> =>
  client.subscribe<Json, object>(RUN_EVENTS, { runId, after })
export const watchActivity = (client: ParleyClient, spaceId: string): LiveEvents<Json> =>
  client.subscribe<Json, object>(ACTIVITY, { spaceId })

/** Opens the same subscription over server-sent events, and calls `onEvent` with each event until `signal` aborts. */
export async function watchSpaceBySse(
  origin: string,
  token: string,
  spaceId: string,
  { onEvent, signal }: { onEvent(event: SpaceEvent): void; signal: AbortSignal },
): Promise<void> {
  const response = await fetch(`${origin}/graphql`, {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify({ query: SPACE_MESSAGES, variables: { spaceId } }),
  })
  let waiting = ''
  for await (const piece of response.body ?? []) {
    waiting += Buffer.from(piece).toString('utf8')
    const frames = waiting.split('\n\n')
    waiting = frames.pop() ?? ''
    for (const frame of frames) {
      const data = /^data: (.+)$/m.exec(frame)?.[1]
      if (data === undefined || !frame.includes('event: next')) continue
      const event = JSON.parse(data).data.spaceMessages
      if (isOfConversation(event)) onEvent(event)
    }
  }
}

/**
 * Returns the messages of a space as a client that has received these events sees them: by id, the text that the client
 * assembles.
 */
export function rebuild(events: SpaceEvent[]): Map<string, { status: string; text: string }> {
  const messages = new Map<string, { status: string; text: string }>()
  const put = ({ id, status, text }: Json) => messages.set(id, { status, text })
  for (const event of events) {
    switch (event.__typename) {
      case 'SpaceSnapshot':
        messages.clear()
        for (const { node } of event.space.messages.edges) put(node)
        break
      case 'MessagePosted':
      case 'MessageFinished':
        put(event.message)
        break
      case 'MessageTextDelta': {
        const known = messages.get(event.messageId)
        if (known !== undefined) known.text = known.text.slice(0, event.offset) + event.delta
        break
      }
      default:
    }
  }
  return messages
}

/** Leaves out the usage of a message's runs. That event arrives two seconds after the runs began. */
const isOfConversation = ({ __typename }: SpaceEvent): boolean => __typename !== 'MessageUpdated'

export const eventsOf = (live: LiveEvents<Json>): SpaceEvent[] =>
  live.seen.map((data) => data.spaceMessages).filter(isOfConversation)
export const isA =
  (type: string, text?: string) =>
  ({ spaceMessages: event }: Json): boolean =>
    event.__typename === type && (text === undefined || event.message?.text === text)

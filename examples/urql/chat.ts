import { Client, fetchExchange, gql, subscriptionExchange } from '@urql/core'
import { cacheExchange } from '@urql/exchange-graphcache'
import { createClient } from 'graphql-ws'
import type { Chat, ChatOptions } from '../show-chat.ts'

const MESSAGES = gql`
  query Chat($spaceId: ID!) {
    space(id: $spaceId) {
      id
      streamCursor
      messages(last: 50) { edges { node { id seq status sender { id name } parts { id ... on TextPart { text } } } } }
    }
  }
`
const LIVE = gql`
  subscription Live($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      __typename
      cursor
      ... on MessagePosted { message { ...Live } }
      ... on MessageTextDelta { messageId part { id text } }
      ... on MessageTextReplaced { messageId part { id text } }
      ... on MessagePartChanged { messageId part { id ... on TextPart { text } } }
      ... on MessageUpdated { message { ...Live } }
      ... on MessageFinished { message { ...Live } }
    }
  }
  fragment Live on Message { id seq status sender { id name } parts { id ... on TextPart { text } } }
`
const SEND = gql`
  mutation Send($input: SendMessageInput!) {
    sendMessage(input: $input) { __typename ... on SendMessagePayload { sentMessage { id } } }
  }
`

interface Message {
  id: string
  seq: number
  status: string
  sender: { name: string }
  parts: { id: string; text?: string }[]
}
interface Data {
  space: { streamCursor: string; messages: { edges: { node: Message }[] } }
}
interface Event {
  cursor: string
  message?: Message
  messageId?: string
  part?: { id: string; text?: string }
}

/** Types without an id are embedded in their parent. */
const WITHOUT_ID = ['MessageConnection', 'MessageEdge', 'MessageTextDelta', 'MessagePosted', 'MessageUpdated']
const EMBEDDED = [
  ...WITHOUT_ID,
  'MessageTextReplaced',
  'MessageFinished',
  'MessagePartChanged',
  'SpaceSnapshot',
  'MemberJoined',
  'MemberLeft',
]

/**
 * A chat with urql and graphcache. Each event updates the cached messages of the query, and the cache then delivers
 * the query's result again.
 */
export function openChat({ url, token, spaceId, onMessages }: ChatOptions): Chat {
  const authorization = `Bearer ${token}`
  const socket = createClient({
    url: url.replace(/^http/, 'ws'),
    connectionParams: { authorization },
    retryAttempts: Number.POSITIVE_INFINITY,
  })
  const cache = cacheExchange({
    keys: Object.fromEntries(EMBEDDED.map((type) => [type, () => null])),
    updates: {
      Subscription: {
        spaceMessages(result, _, store) {
          const event = result['spaceMessages'] as unknown as Event
          store.updateQuery(
            { query: MESSAGES, variables: { spaceId } },
            (data) => withEvent(data as unknown as Data, event) as never,
          )
        },
      },
    },
  })
  const client = new Client({
    url,
    exchanges: [
      cache,
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query = '', variables }) => ({
          subscribe: (sink) => ({
            unsubscribe: socket.subscribe({ query, variables: variables as Record<string, unknown> }, sink as never),
          }),
        }),
      }),
    ],
    fetchOptions: { headers: { authorization } },
    preferGetMethod: false,
  })
  let live: { unsubscribe(): void } | undefined
  const shown = client.query<Data>(MESSAGES, { spaceId }).subscribe(({ data }) => {
    if (!data) return
    live ??= client.subscription(LIVE, { spaceId, after: data.space.streamCursor }).subscribe(() => {})
    onMessages(
      data.space.messages.edges.map(({ node: { id, sender, parts, status } }) => ({
        id,
        sender: sender.name,
        text: parts.map(({ text }) => text ?? '').join('\n\n'),
        isWriting: status === 'STREAMING',
      })),
    )
  })
  return {
    async send(text) {
      await client.mutation(SEND, { input: { spaceId, text } }).toPromise()
    },
    close() {
      live?.unsubscribe()
      shown.unsubscribe()
      void socket.dispose()
    },
  }
}

/** Inserts the event's message into the list, or replaces the event's part in its message. */
function withEvent(data: Data | null, { message, messageId, part }: Event): Data | null {
  if (data === null) return null
  const { edges } = data.space.messages
  const known = edges.find(({ node }) => node.id === (message?.id ?? messageId))?.node
  const others = known && part ? known.parts.filter(({ id }) => id !== part.id) : []
  const next = message ?? (known && part && { ...known, parts: [...others, { __typename: 'TextPart', ...part }] })
  if (!next) return data
  const rest = edges.filter(({ node }) => node.id !== next.id)
  const ordered = [...rest, { __typename: 'MessageEdge', node: next }].sort(
    (one, other) => one.node.seq - other.node.seq,
  )
  return { ...data, space: { ...data.space, messages: { ...data.space.messages, edges: ordered } } }
}

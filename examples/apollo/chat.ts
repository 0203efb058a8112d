import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from '@apollo/client'
import { GraphQLWsLink } from '@apollo/client/link/subscriptions'
import { OperationTypeNode } from 'graphql'
import { createClient } from 'graphql-ws'
import type { Chat, ChatOptions } from '../show-chat.ts'

const MESSAGES = gql`
  fragment ChatMessage on Message { id seq status sender { id name } parts { id ... on TextPart { text } } }
  query Chat($spaceId: ID!) {
    space(id: $spaceId) { id streamCursor messages(last: 50) { edges { node { ...ChatMessage } } } }
  }
`
const LIVE = gql`
  fragment LiveMessage on Message { id seq status sender { id name } parts { id ... on TextPart { text } } }
  subscription Live($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      cursor
      ... on MessagePosted { message { ...LiveMessage } }
      ... on MessageTextDelta { messageId part { id text } }
      ... on MessageTextReplaced { messageId part { id text } }
      ... on MessagePartChanged { messageId part { id ... on TextPart { text } } }
      ... on MessageUpdated { message { ...LiveMessage } }
      ... on MessageFinished { message { ...LiveMessage } }
    }
  }
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

/**
 * The implementations of interfaces that the fragments use. A real app generates the complete list from the
 * schema.
 */
const POSSIBLE_TYPES = {
  MessagePart: ['TextPart', 'ToolCallPart'],
  Entity: ['Human', 'Agent'],
  SpaceEvent: [
    'MessagePosted',
    'MessageTextDelta',
    'MessageTextReplaced',
    'MessagePartChanged',
    'MessageUpdated',
    'MessageFinished',
  ],
}

/**
 * A chat with Apollo Client: a query loads the messages, and `subscribeToMore` continues from the query's
 * cursor.
 */
export function openChat({ url, token, spaceId, onMessages }: ChatOptions): Chat {
  const authorization = `Bearer ${token}`
  const socket = createClient({
    url: url.replace(/^http/, 'ws'),
    connectionParams: { authorization },
    retryAttempts: Number.POSITIVE_INFINITY,
  })
  const client = new ApolloClient({
    cache: new InMemoryCache({
      possibleTypes: POSSIBLE_TYPES,
      // Each event replaces the event before it, so the cache must not merge them.
      typePolicies: { Subscription: { fields: { spaceMessages: { merge: false } } } },
    }),
    link: ApolloLink.split(
      ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
      new GraphQLWsLink(socket),
      new HttpLink({ uri: url, headers: { authorization } }),
    ),
  })
  const query = client.watchQuery<Data, { spaceId: string }>({ query: MESSAGES, variables: { spaceId } })
  let live: (() => void) | undefined
  const shown = query.subscribe(({ data }) => {
    if (data?.space?.streamCursor === undefined) return
    const { streamCursor: after, messages } = data.space as Data['space']
    live ??= query.subscribeToMore<{ spaceMessages: Event }, { spaceId: string; after: string }>({
      document: LIVE,
      variables: { spaceId, after },
      // A delta contains the updated part of the message. The cache has already stored the part by its id.
      updateQuery: (_, { previousData, subscriptionData }) =>
        withEvent(previousData as Data, subscriptionData.data.spaceMessages),
    })
    onMessages(
      messages.edges.map(({ node: { id, sender, parts, status } }) => ({
        id,
        sender: sender.name,
        text: parts.map(({ text }) => text ?? '').join('\n\n'),
        isWriting: status === 'STREAMING',
      })),
    )
  })
  return {
    async send(text) {
      await client.mutate({ mutation: SEND, variables: { input: { spaceId, text } } })
    },
    close() {
      live?.()
      shown.unsubscribe()
      client.stop()
      void socket.dispose()
    },
  }
}

/** Inserts the event's message into the list, or adds the event's part to its message if the part is new. */
function withEvent(data: Data, { message, messageId, part }: Event): Data {
  const { edges } = data.space.messages
  const known = edges.find(({ node }) => node.id === (message?.id ?? messageId))?.node
  const next =
    message ??
    (known && part && !known.parts.some(({ id }) => id === part.id) && { ...known, parts: [...known.parts, part] })
  if (!next) return data
  const others = edges.filter(({ node }) => node.id !== next.id)
  const ordered = [...others, { __typename: 'MessageEdge', node: next }].sort(
    (one, other) => one.node.seq - other.node.seq,
  )
  return { ...data, space: { ...data.space, messages: { ...data.space.messages, edges: ordered } } }
}

// The operations that relay-compiler compiles into `__generated__/`. Relay requires their names to start with
// the file's name.

import { graphql } from 'relay-runtime'

graphql`
  fragment space_message on Message {
    id
    seq
    status
    sender { name }
    parts { id ... on TextPart { text } }
  }
`

graphql`
  query spaceQuery($spaceId: ID!) {
    space(id: $spaceId) {
      streamCursor
      messages(last: 50) @connection(key: "space_messages") {
        __id
        edges { node { ...space_message @relay(mask: false) } }
      }
    }
  }
`

graphql`
  subscription spaceSubscription($spaceId: ID!, $after: StreamCursor, $connections: [ID!]!) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      ... on MessagePosted { message @appendNode(connections: $connections, edgeTypeName: "MessageEdge") { ...space_message } }
      ... on MessageTextDelta { messageId part { id text } }
      ... on MessageTextReplaced { messageId part { id text } }
      ... on MessagePartChanged { messageId part { id ... on TextPart { text } } }
      ... on MessageUpdated { message { ...space_message } }
      ... on MessageFinished { message { ...space_message } }
    }
  }
`

graphql`
  mutation spaceMutation($input: SendMessageInput!, $connections: [ID!]!) {
    sendMessage(input: $input) {
      ... on SendMessagePayload {
        sentMessage @appendNode(connections: $connections, edgeTypeName: "MessageEdge") { ...space_message }
      }
    }
  }
`

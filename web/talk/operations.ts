import { graphql } from '../graphql.ts'

export const AGENT_CHOICES = graphql(`
  query ConsoleAgentChoices($search: String) {
    agents(first: 50, search: $search) { edges { node { id name kind description } } }
  }
`)

export const CREATE_SPACE = graphql(`
  mutation ConsoleCreateSpace($input: CreateSpaceInput!) {
    createSpace(input: $input) {
      __typename
      ... on CreateSpacePayload { space { id } }
      ... on Error { message code }
    }
  }
`)

export const UPDATE_SPACE = graphql(`
  mutation ConsoleUpdateSpace($input: UpdateSpaceInput!) {
    updateSpace(input: $input) {
      __typename
      ... on UpdateSpacePayload { space { id } }
      ... on Error { message code }
    }
  }
`)

export const SPACE_CONFIDENCE = graphql(`
  query ConsoleSpaceConfidence($id: ID!) {
    space(id: $id) { id agentsElsewhere { id name kind } }
  }
`)

export const ADD_MEMBER = graphql(`
  mutation ConsoleAddMember($spaceId: ID!, $entityId: ID!) {
    addMember(input: { spaceId: $spaceId, entityId: $entityId }) {
      __typename
      ... on AddMemberPayload { space { id } }
      ... on Error { message code }
    }
  }
`)

export const REMOVE_MEMBER = graphql(`
  mutation ConsoleRemoveMember($spaceId: ID!, $entityId: ID!) {
    removeMember(input: { spaceId: $spaceId, entityId: $entityId }) {
      __typename
      ... on RemoveMemberPayload { entityId }
      ... on Error { message code }
    }
  }
`)

export const MARK_READ = graphql(`
  mutation ConsoleMarkRead($spaceId: ID!, $messageId: ID!) {
    markRead(input: { spaceId: $spaceId, messageId: $messageId }) {
      __typename
      ... on MarkReadPayload { space { id unreadCount } }
      ... on Error { message code }
    }
  }
`)

export const RETRY_RUN = graphql(`
  mutation ConsoleRetryRun($runId: ID!) {
    retryRun(input: { runId: $runId }) {
      __typename
      ... on RetryRunPayload { run { id } }
      ... on Error { message code }
    }
  }
`)

export const STOP_RUN = graphql(`
  mutation ConsoleStopRun($runId: ID!, $cascade: Boolean!) {
    stopRun(input: { runId: $runId, cascade: $cascade }) {
      __typename
      ... on StopRunPayload { stoppedRuns { id } }
      ... on Error { message code }
    }
  }
`)

export const MESSAGE_PLACE = graphql(`
  query ConsoleMessagePlace($id: ID!) {
    message(id: $id) { id seq space { id } threadRootId }
  }
`)

export const UNREAD_THREADS = graphql(`
  query ConsoleUnreadThreads($spaceId: ID!) {
    space(id: $spaceId) {
      id
      unreadThreads { rootId unreadCount root { id text deletedAt sender { id name } } }
    }
  }
`)

export const SPACE_FILES = graphql(`
  query ConsoleSpaceFiles($id: ID!, $after: String) {
    space(id: $id) {
      id
      files(first: 20, after: $after) {
        edges { node { id name mediaType size url thumbnailUrl width height createdAt } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`)

export const FILE_ADDRESS = graphql(`
  query ConsoleFileAddress($id: ID!) {
    node(id: $id) { __typename ... on File { id name mediaType size url thumbnailUrl width height } }
  }
`)

export const WAKES = graphql(`
  query ConsoleWakes($spaceId: ID!, $mentionedIds: [ID!], $replyToId: ID) {
    wakes(spaceId: $spaceId, mentionedIds: $mentionedIds, replyToId: $replyToId) { id name }
  }
`)

export const PEOPLE_CHOICES = graphql(`
  query ConsolePeopleChoices($search: String) {
    humans(first: 20, search: $search) { edges { node { id name kind erasedAt } } }
  }
`)

export const SET_TYPING = graphql(`
  mutation ConsoleSetTyping($spaceId: ID!) {
    setTyping(input: { spaceId: $spaceId }) { __typename ... on Error { message code } }
  }
`)

export const EDIT_MESSAGE = graphql(`
  mutation ConsoleEditMessage($input: EditMessageInput!) {
    editMessage(input: $input) {
      __typename
      ... on EditMessagePayload { editedMessage { id } }
      ... on Error { message code }
    }
  }
`)

export const DELETE_MESSAGE = graphql(`
  mutation ConsoleDeleteMessage($messageId: ID!) {
    deleteMessage(input: { messageId: $messageId }) {
      __typename
      ... on DeleteMessagePayload { deletedMessage { id } }
      ... on Error { message code }
    }
  }
`)

export const REACT = graphql(`
  mutation ConsoleReact($messageId: ID!, $emoji: String!, $on: Boolean!) {
    react(input: { messageId: $messageId, emoji: $emoji, on: $on }) {
      __typename
      ... on ReactPayload { changed: message { id } }
      ... on Error { message code }
    }
  }
`)

export const REACTIONS = graphql(`
  query ConsoleReactions($messageId: ID!) {
    message(id: $messageId) { id reactions { emoji count entities { id name } } }
  }
`)

export const VERSIONS = graphql(`
  query ConsoleVersions($messageId: ID!) {
    message(id: $messageId) { id versions { text editedAt } staleRuns { id agent { id name } } }
  }
`)

export const FORK_SPACE = graphql(`
  mutation ConsoleForkSpace($input: ForkSpaceInput!) {
    forkSpace(input: $input) {
      __typename
      ... on ForkSpacePayload { space { id } }
      ... on Error { message code }
    }
  }
`)

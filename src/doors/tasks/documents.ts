import type { ACTIVE_RUN_STATUSES, ENDED_RUN_STATUSES } from '../../rules/statuses.ts'

// The GraphQL operations for tasks, and their results.

export type RunStatus = (typeof ACTIVE_RUN_STATUSES)[number] | (typeof ENDED_RUN_STATUSES)[number]

export interface Named {
  id: string
  name: string
}

export interface Sender extends Named {
  kind: 'HUMAN' | 'AGENT'
}

export interface Message {
  id: string
  seq: number
  createdAt: string
  editedAt: string | null
  deletedAt: string | null
  status: 'COMPLETE' | 'INTERRUPTED' | 'REQUIRES_ACTION' | 'STREAMING'
  text: string
  sender: Sender
  run: { id: string } | null
}

export interface Space extends Named {
  description: string | null
  routing: 'ADMIN' | 'BROADCAST' | 'MENTION_CHAIN'
  confidential: boolean
  unreadCount: number
  streamCursor: string
  members: Sender[]
}

interface PageInfo {
  hasNextPage: boolean
  hasPreviousPage: boolean
  startCursor: string | null
  endCursor: string | null
}

export interface Page<T> {
  edges: { node: T }[]
  pageInfo: PageInfo
}

export interface PendingCall {
  id: string
  toolName: string
  waitsFor: 'DECISION' | 'RESULT' | 'MESSAGE' | null
  input: unknown
  resultSchema: unknown
  expiresAt: string | null
  createdAt: string
  agent: Named
  run: { id: string } | null
  message: { id: string; space: Named } | null
  approval: { inputDigest: string; mayDecide: boolean; quorum: number; decisions: { counts: boolean }[] } | null
}

export interface RunState {
  id: string
  status: RunStatus
  error: string | null
  summary: string | null
  queuedAt: string
  startedAt: string | null
  finishedAt: string | null
  agent: Named
  toolCalls: { id: string; waitsFor: PendingCall['waitsFor']; approval: { mayDecide: boolean } | null }[]
}

const PAGE_INFO = 'pageInfo { hasNextPage hasPreviousPage startCursor endCursor }'
const MESSAGE = 'id seq createdAt editedAt deletedAt status text sender { id kind name } run { id }'
const SPACE_FIELDS = 'id name description routing confidential unreadCount streamCursor members { id kind name }'
const RUN = `id status error summary queuedAt startedAt finishedAt agent { id name } toolCalls { id waitsFor approval { mayDecide } }`
const CALL = `id toolName waitsFor input resultSchema expiresAt createdAt agent { id name } run { id } message { id space { id name } }
  approval { inputDigest mayDecide quorum decisions { counts } }`

export const LIST_SPACES = `query ListSpaces($first: Int!, $after: String) {
  spaces(first: $first, after: $after) { edges { node { ${SPACE_FIELDS} } } ${PAGE_INFO} }
}`
export const LIST_RESOURCES = `query ListResources($first: Int!, $after: String) {
  spaces(first: $first, after: $after) { edges { node { id name description } } ${PAGE_INFO} }
}`
export const LIST_AGENTS = `query ListAgents($first: Int!, $after: String) {
  agents(first: $first, after: $after) { edges { node { id name description } } ${PAGE_INFO} }
}`
export const AGENT = 'query Agent($id: ID!) { agent(id: $id) { id name description } }'
export const SPACE = 'query Space($id: ID!) { space(id: $id) { id name description } }'

export const READ_MESSAGES = `query ReadMessages($spaceId: ID!, $first: Int, $last: Int, $after: String, $before: String) {
  space(id: $spaceId) {
    ${SPACE_FIELDS}
    messages(first: $first, last: $last, after: $after, before: $before) { edges { node { ${MESSAGE} } } ${PAGE_INFO} }
  }
}`
/** Reads the messages that runs have posted. */
export const REPLIES = `query Replies($ids: [ID!]!, $first: Int!, $after: String) {
  nodes(ids: $ids) {
    ... on Run { id messages(first: $first, after: $after) { edges { node { ${MESSAGE} space { id } } } ${PAGE_INFO} } }
  }
}`
export const CURSORS = 'query Cursors($ids: [ID!]!) { nodes(ids: $ids) { ... on Space { id streamCursor } } }'
export const MESSAGES = `query Messages($ids: [ID!]!) { nodes(ids: $ids) { ... on Message { ${MESSAGE} } } }`
export const SEARCH = `query Search($query: String!, $spaceId: ID, $first: Int!, $after: String) {
  search(query: $query, spaceId: $spaceId, first: $first, after: $after) {
    edges { node { snippet message { id seq createdAt sender { id kind name } space { id name } } } }
    ${PAGE_INFO}
  }
}`
export const PENDING_IDS = 'query PendingIds { viewer { pendingToolCalls { id } } }'
export const CALLS = `query Calls($ids: [ID!]!) { nodes(ids: $ids) { ... on ToolCall { ${CALL} } } }`

/** Reads the state of tasks. A task is a message with the runs that it started, or a single run. */
export const TASKS = `query Tasks($ids: [ID!]!) {
  nodes(ids: $ids) {
    __typename
    ... on Message { id createdAt space { id } outcomes { kind error readAt agent { id name } run { ${RUN} } } }
    ... on Run { ${RUN} triggerMessage { id } triggerSpace { id } }
  }
}`
export const LIST_RUNS = `query ListRuns($first: Int!, $after: String, $filter: RunFilter) {
  runs(first: $first, after: $after, filter: $filter) {
    edges { cursor node { id triggerMessage { id } } }
    ${PAGE_INFO}
  }
}`

/** The events are used only as signals to read the state again. */
export const FOLLOW_ACTIVITY =
  'subscription FollowActivity($spaceId: ID!) { agentActivity(spaceId: $spaceId) { agent { id } } }'
export const FOLLOW_RUN = 'subscription FollowRun($runId: ID!) { runEvents(runId: $runId) { __typename } }'
export const FOLLOW_SPACE = `subscription FollowSpace($spaceId: ID!, $after: StreamCursor) {
  spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor }
}`
/** Reports which messages have changed, and which runs posted them. */
export const FOLLOW_REPLIES = `subscription FollowReplies($spaceId: ID!) {
  spaceMessages(spaceId: $spaceId) {
    __typename
    ... on MessagePosted { message { id run { id } } }
    ... on MessageUpdated { message { id run { id } } }
    ... on MessageTextDelta { messageId }
    ... on MessageTextReplaced { messageId }
  }
}`
export const FOLLOW_SPACES = 'subscription FollowSpaces { viewerEvents { __typename } }'

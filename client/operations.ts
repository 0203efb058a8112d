import type * as types from './generated/graphql.ts'
import { graphql } from './graphql.ts'

graphql(`
  fragment LiveToolCall on ToolCall {
    id
    toolName
    status
    input
    output
    error
    files { id name mediaType size url thumbnailUrl width height }
    createdAt
    expiresAt
    waitsFor
    agent { id name }
    resultSchema
    inputSchema
    claimedBy { id name }
    answeredBy { id name }
    answeredByService
    settledAt
    grant { id proposedBy { id name } }
    authorization { text url }
    approval {
      state
      quorum
      mayDecide
      inputDigest
      expiresAt
      escalatedAt
      approvers { id name }
      decisions { human { id name } approve reason at counts }
    }
  }
`)

graphql(`
  fragment LivePart on MessagePart {
    __typename
    id
    index
    ... on TextPart { text }
    ... on ToolCallPart { toolCall { ...LiveToolCall } }
    ... on FilePart { file { id name mediaType size url thumbnailUrl width height } }
  }
`)

graphql(`
  fragment LiveOutcome on AgentOutcome {
    kind
    reason
    error
    agent { id name }
    run { id status }
  }
`)

graphql(`
  fragment LiveMessage on Message {
    id
    seq
    status
    createdAt
    sender { id name kind }
    actingAdmin { id name }
    mentionedAgent { id name }
    mentions { id name }
    run { id }
    origin { triggerType triggerName triggerMessage triggerSenderName triggerSpaceId triggerSpaceName }
    outcomes { ...LiveOutcome }
    waitingCall { id }
    rootUsage { totalTokens costUsd estimated }
    editedAt
    deletedAt
    replyTo { id }
    threadRootId
    reactions { emoji count mine }
    parts { ...LivePart }
  }
`)

graphql(`
  fragment LiveThreadSummary on Thread { replyCount lastReplyAt unreadCount }
`)

// With `$rootsOnly`, the result has no replies, but the number of replies of each thread.
graphql(`
  fragment LiveMessages on MessageConnection {
    edges { node { ...LiveMessage thread @include(if: $rootsOnly) { ...LiveThreadSummary } } }
    pageInfo { hasPreviousPage }
  }
`)

graphql(`
  fragment LiveSpace on Space {
    id
    name
    description
    routing
    confidential
    createdAt
    adminAgent { id name }
    members { id name kind }
  }
`)

export const SPACE_MESSAGES = graphql<
  types.LiveSpaceMessagesSubscription,
  types.LiveSpaceMessagesSubscriptionVariables
>(`
  subscription LiveSpaceMessages(
    $spaceId: ID!
    $after: StreamCursor
    $withPresence: Boolean = false
    $rootsOnly: Boolean = false
  ) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      __typename
      cursor
      ... on SpaceSnapshot {
        space { ...LiveSpace firstUnreadMessage { id seq } messages(last: 50, rootsOnly: $rootsOnly) { ...LiveMessages } }
      }
      ... on MessagePosted { message { ...LiveMessage } }
      ... on MessageUpdated { message { ...LiveMessage } }
      ... on MessageFinished { message { ...LiveMessage } }
      ... on MessageTextDelta { messageId partIndex offset delta }
      ... on MessageTextReplaced { messageId partIndex offset text }
      ... on MessagePartChanged { messageId part { ...LivePart } }
      ... on MemberJoined { entity { id name kind } }
      ... on MemberLeft { entity { id name kind } }
      ... on SpaceUpdated { space { ...LiveSpace } }
      ... on MemberPresenceChanged { changes @include(if: $withPresence) { entity { id } presence typingUntil } }
    }
  }
`)

export const SPACE_PRESENCE = graphql<types.LiveSpacePresenceQuery, types.LiveSpacePresenceQueryVariables>(`
  query LiveSpacePresence($spaceId: ID!) {
    space(id: $spaceId) { members { __typename id ... on Human { presence } } }
  }
`)

export const EARLIER_MESSAGES = graphql<types.LiveEarlierMessagesQuery, types.LiveEarlierMessagesQueryVariables>(`
  query LiveEarlierMessages($spaceId: ID!, $before: String!, $last: Int!, $rootsOnly: Boolean = false) {
    space(id: $spaceId) {
      messages(last: $last, before: $before, rootsOnly: $rootsOnly) { ...LiveMessages }
    }
  }
`)

export const THREAD = graphql<types.LiveThreadQuery, types.LiveThreadQueryVariables>(`
  query LiveThread($spaceId: ID!, $rootId: ID!, $before: String, $last: Int!, $rootsOnly: Boolean = false) {
    message(id: $rootId) { ...LiveMessage space { id } }
    space(id: $spaceId) {
      thread(rootId: $rootId) { messages(last: $last, before: $before) { ...LiveMessages } }
    }
  }
`)

export const ONE_MESSAGE = graphql<types.LiveOneMessageQuery, types.LiveOneMessageQueryVariables>(`
  query LiveOneMessage($id: ID!) {
    message(id: $id) { ...LiveMessage }
  }
`)

export const AGENT_ACTIVITY = graphql<
  types.LiveAgentActivitySubscription,
  types.LiveAgentActivitySubscriptionVariables
>(`
  subscription LiveAgentActivity($spaceId: ID!) {
    agentActivity(spaceId: $spaceId) {
      agent { id name }
      active
      runs { id status triggerSummary }
    }
  }
`)

export const SEND_MESSAGE = graphql<types.LiveSendMessageMutation, types.LiveSendMessageMutationVariables>(`
  mutation LiveSendMessage($input: SendMessageInput!) {
    sendMessage(input: $input) {
      __typename
      ... on SendMessagePayload { sentMessage { ...LiveMessage } runs { id } }
      ... on Error { message code }
      ... on RateLimitedError { retryAfterMs }
    }
  }
`)

export const STOP_RUN = graphql<types.LiveStopRunMutation, types.LiveStopRunMutationVariables>(`
  mutation LiveStopRun($runId: ID!, $cascade: Boolean!) {
    stopRun(input: { runId: $runId, cascade: $cascade }) {
      __typename
      ... on StopRunPayload { stoppedRuns { id status } }
      ... on Error { message code }
    }
  }
`)

graphql(`
  fragment LiveRunState on Run {
    id
    status
    stopReason
    error
    triggerSummary
    triggerType
    queuedAt
    startedAt
    finishedAt
    stepCount
    agent { id name }
    usage { inputTokens outputTokens totalTokens cachedInputTokens estimated costUsd }
  }
`)

export const RUN_EVENTS = graphql<types.LiveRunEventsSubscription, types.LiveRunEventsSubscriptionVariables>(`
  subscription LiveRunEvents($runId: ID!, $after: StreamCursor) {
    runEvents(runId: $runId, after: $after) {
      __typename
      cursor
      at
      ... on RunSnapshot { run { ...LiveRunState toolCalls { ...LiveToolCall } } }
      ... on RunStarted { run { ...LiveRunState } }
      ... on RunSpaceEntered { spaceId space { id name } }
      ... on RunTextDelta { step delta }
      ... on RunReasoningDelta { step delta }
      ... on RunToolInputDelta { step toolCallId toolName delta }
      ... on RunToolCalled { toolCall { ...LiveToolCall } }
      ... on RunToolReturned { toolCall { ...LiveToolCall } }
      ... on RunToolCallChanged { toolCall { ...LiveToolCall } }
      ... on RunStepFinished { step usage { inputTokens outputTokens totalTokens cachedInputTokens estimated costUsd } }
      ... on RunWaitingTool { toolCalls { ...LiveToolCall } }
      ... on RunCompleted { run { ...LiveRunState } }
      ... on RunFailed { error run { ...LiveRunState } }
      ... on RunCanceled { run { ...LiveRunState } }
    }
  }
`)

graphql(`
  fragment LiveListedSpace on Space {
    id
    name
    confidential
    createdAt
    unreadCount
    unreadMentions
    lastMessage { id createdAt deletedAt text sender { id name kind } }
  }
`)

graphql(`
  fragment LiveWaitingCall on ToolCall {
    ...LiveToolCall
    run { id triggerSummary }
    message { id space { id name } }
  }
`)

graphql(`
  fragment LiveViewerState on Viewer {
    id
    scope
    isAdmin
    serviceName
    human { id name }
    unreadCount
    pendingToolCalls { ...LiveWaitingCall }
  }
`)

export const VIEWER_EVENTS = graphql<types.LiveViewerEventsSubscription, types.LiveViewerEventsSubscriptionVariables>(`
  subscription LiveViewerEvents {
    viewerEvents {
      __typename
      ... on ViewerSnapshot { viewer { ...LiveViewerState } }
      ... on ViewerSpaceAdded { space { ...LiveListedSpace } }
      ... on ViewerSpaceChanged { space { ...LiveListedSpace } }
      ... on ViewerSpaceRemoved { spaceId }
      ... on ViewerNotice { kind noticeSpaceId: spaceId messageId toolCallId runId }
      ... on ViewerStandingGrantChanged { standingGrant { id } }
      ... on ViewerToolCallWaiting { toolCall { ...LiveWaitingCall } }
      ... on ViewerToolCallChanged { toolCall { ...LiveWaitingCall } }
      ... on ViewerToolCallSettled { toolCall { ...LiveWaitingCall } }
    }
  }
`)

export const SPACES = graphql<types.LiveSpacesQuery, types.LiveSpacesQueryVariables>(`
  query LiveSpaces($after: String, $first: Int!) {
    spaces(first: $first, after: $after) {
      edges { node { ...LiveListedSpace } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

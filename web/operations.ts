import { graphql } from './graphql.ts'

graphql(`
  fragment ConsoleCall on ToolCall {
    id
    toolName
    status
    input
    output
    error
  }
`)

graphql(`
  fragment ConsolePart on MessagePart {
    __typename
    id
    index
    ... on TextPart { text }
    ... on ToolCallPart { toolCall { ...ConsoleCall } }
  }
`)

graphql(`
  fragment ConsoleMessage on Message {
    id
    seq
    status
    createdAt
    sender { id name kind }
    mentionedAgent { name }
    parts { ...ConsolePart }
  }
`)

graphql(`
  fragment ConsoleSpace on Space {
    id
    name
    description
    routing
    members { id name kind }
  }
`)

graphql(`
  fragment ConsoleMessages on MessageConnection {
    edges { node { ...ConsoleMessage } }
    pageInfo { hasPreviousPage }
  }
`)

graphql(`
  fragment ConsoleListedSpace on Space {
    id
    name
    unreadCount
  }
`)

export const WHO_AM_I = graphql(`
  query ConsoleViewer {
    viewer { id scope serviceName human { name } }
  }
`)

export const SPACES = graphql(`
  query ConsoleSpaces($after: String) {
    spaces(first: 100, after: $after) {
      edges { node { ...ConsoleListedSpace } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const AGENTS = graphql(`
  query ConsoleAgents {
    agents(first: 100) { edges { node { id name description } } }
  }
`)

export const EARLIER_MESSAGES = graphql(`
  query ConsoleEarlierMessages($spaceId: ID!, $before: String!) {
    space(id: $spaceId) {
      messages(last: 50, before: $before) { ...ConsoleMessages }
    }
  }
`)

export const OUTCOMES = graphql(`
  query ConsoleOutcomes($messageId: ID!) {
    message(id: $messageId) {
      outcomes { kind reason agent { name } run { status } }
    }
  }
`)

export const VIEWER_EVENTS = graphql(`
  subscription ConsoleViewerEvents {
    viewerEvents {
      __typename
      ... on ViewerSpaceAdded { space { ...ConsoleListedSpace } }
      ... on ViewerSpaceChanged { space { ...ConsoleListedSpace } }
      ... on ViewerSpaceRemoved { spaceId }
    }
  }
`)

export const SPACE_MESSAGES = graphql(`
  subscription ConsoleSpaceMessages($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      __typename
      cursor
      ... on SpaceSnapshot { space { ...ConsoleSpace messages(last: 50) { ...ConsoleMessages } } }
      ... on MessagePosted { message { ...ConsoleMessage } }
      ... on MessageUpdated { message { ...ConsoleMessage } }
      ... on MessageFinished { message { ...ConsoleMessage } }
      ... on MessageTextDelta { messageId partIndex offset delta }
      ... on MessagePartChanged { messageId part { ...ConsolePart } }
      ... on MemberJoined { entity { id name kind } }
      ... on MemberLeft { entity { id name kind } }
      ... on SpaceUpdated { space { ...ConsoleSpace } }
    }
  }
`)

export const AGENT_ACTIVITY = graphql(`
  subscription ConsoleAgentActivity($spaceId: ID!) {
    agentActivity(spaceId: $spaceId) {
      agent { id name }
      active
      runs { id status triggerSummary }
    }
  }
`)

export const CREATE_HUMAN = graphql(`
  mutation ConsoleCreateHuman($name: String!) {
    createHuman(input: { name: $name }) {
      __typename
      ... on CreateHumanPayload { human { id name } }
      ... on Error { message }
    }
  }
`)

export const CREATE_TOKEN = graphql(`
  mutation ConsoleCreateToken($humanId: ID!) {
    createAccessToken(input: { grant: { humanId: $humanId } }) {
      __typename
      ... on CreateAccessTokenPayload { secret }
      ... on Error { message }
    }
  }
`)

export const CREATE_AGENT = graphql(`
  mutation ConsoleCreateAgent($name: String!, $instructions: String!, $model: String) {
    createAgent(input: { name: $name, instructions: $instructions, model: $model }) {
      __typename
      ... on CreateAgentPayload { agent { id name model } }
      ... on Error { message }
    }
  }
`)

export const CREATE_SPACE = graphql(`
  mutation ConsoleCreateSpace($input: CreateSpaceInput!) {
    createSpace(input: $input) {
      __typename
      ... on CreateSpacePayload { space { id } }
      ... on Error { message }
    }
  }
`)

export const SEND_MESSAGE = graphql(`
  mutation ConsoleSendMessage($input: SendMessageInput!) {
    sendMessage(input: $input) {
      __typename
      ... on SendMessagePayload { sentMessage { id } }
      ... on Error { message }
    }
  }
`)

export const MARK_READ = graphql(`
  mutation ConsoleMarkRead($spaceId: ID!, $messageId: ID!) {
    markRead(input: { spaceId: $spaceId, messageId: $messageId }) {
      __typename
      ... on MarkReadPayload { space { id } }
      ... on Error { message }
    }
  }
`)

export const SUBMIT_TOOL_RESULT = graphql(`
  mutation ConsoleSubmitToolResult($toolCallId: ID!, $result: JSON!) {
    submitToolResult(input: { toolCallId: $toolCallId, result: $result }) {
      __typename
      ... on SubmitToolResultPayload { toolCall { id } }
      ... on Error { message }
    }
  }
`)

export const STOP_RUN = graphql(`
  mutation ConsoleStopRun($runId: ID!) {
    stopRun(input: { runId: $runId }) {
      __typename
      ... on StopRunPayload { run { id status } }
      ... on Error { message }
    }
  }
`)

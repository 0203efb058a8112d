// The GraphQL operations that the protocol endpoints execute, and the types of their results.
import { type Caller, DoorError, type DoorErrorCode, notFound } from './exchange.ts'

export interface Named {
  id: string
  name: string
}

export interface Sender extends Named {
  kind: 'HUMAN' | 'AGENT'
}

export type CallStatus = 'STREAMING' | 'RUNNING' | 'WAITING' | 'DONE' | 'FAILED' | 'TIMED_OUT' | 'CANCELED'

/** A tool call that is shown in a message. */
export interface ShownCall {
  id: string
  toolName: string
  status: CallStatus
  input: unknown
  output: unknown
  error: string | null
}

export type ShownPart =
  | { __typename: 'TextPart'; index: number; text: string }
  | { __typename: 'ToolCallPart'; index: number; toolCall: ShownCall }
  | { __typename: 'FilePart'; index: number; file: Named & { mediaType: string } }

export type MessageStatus = 'STREAMING' | 'REQUIRES_ACTION' | 'COMPLETE' | 'INTERRUPTED'

export interface ShownMessage {
  id: string
  seq: number
  status: MessageStatus
  createdAt: string
  idempotencyKey: string | null
  sender: Sender
  run: { id: string; rootId: string } | null
  parts: ShownPart[]
}

export const PART = `fragment DoorPart on MessagePart {
  __typename index
  ... on TextPart { text }
  ... on ToolCallPart { toolCall { id toolName status input output error } }
  ... on FilePart { file { id name mediaType } }
}`

export const MESSAGE = `${PART}
fragment DoorMessage on Message {
  id seq status createdAt idempotencyKey sender { id name kind } run { id rootId } parts { ...DoorPart }
}`

/** A call that may wait for a person. */
export interface PendingCall {
  id: string
  toolName: string
  status: CallStatus
  waitsFor: 'RESULT' | 'DECISION' | 'MESSAGE' | null
  expiresAt: string | null
  agent: Named
  run: { id: string; rootId: string } | null
  message: { id: string; space: { id: string }; threadRoot: { id: string } | null } | null
  approval: { inputDigest: string; mayDecide: boolean; expiresAt: string; approvers: Named[] } | null
}

export const CALL = `fragment DoorCall on ToolCall {
  id toolName status waitsFor expiresAt agent { id name } run { id rootId } message { id space { id } threadRoot { id } }
  approval { inputDigest mayDecide expiresAt approvers { id name } }
}`

const FAILURES =
  '__typename ... on Error { code message } ... on BadInputError { field } ... on RateLimitedError { retryAfterMs }'

const SEND = `mutation DoorSend($input: SendMessageInput!) {
  sendMessage(input: $input) { ${FAILURES} ... on SendMessagePayload { sentMessage { id seq space { id } } } }
}`
export const DECIDE = `mutation DoorDecide($input: DecideToolCallInput!) {
  decideToolCall(input: $input) {
    ${FAILURES}
    ... on DecideToolCallPayload { toolCall { id status approval { state inputDigest quorum decisions { counts } } } }
  }
}`
export const SUBMIT_RESULT = `mutation DoorSubmit($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { ${FAILURES} ... on SubmitToolResultPayload { toolCall { id status } } }
}`
export const STOP_RUN = `mutation DoorStop($input: StopRunInput!) {
  stopRun(input: $input) { __typename ... on Error { code message } ... on StopRunPayload { run { id status } stoppedRuns { id } } }
}`
export const TRIGGER_AGENT = `mutation DoorTrigger($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ${FAILURES} ... on TriggerAgentPayload { run { id } } }
}`

export interface SentMessage {
  id: string
  seq: number
  space: { id: string }
}

export interface SendInput {
  spaceId: string
  text: string
  idempotencyKey?: string | null | undefined
  replyToId?: string | undefined
  mentionedIds?: string[] | undefined
}

/** Posts a message as the caller. @throws DoorError */
export async function sendMessage(caller: Caller, input: SendInput): Promise<SentMessage> {
  return (await mutate<{ sentMessage: SentMessage }>(caller, SEND, input)).sentMessage
}

/** Stops runs, and the runs that they have started. Runs that have already ended stay unchanged. @throws DoorError */
export async function stopRuns(caller: Caller, ids: readonly string[]): Promise<void> {
  for (const runId of ids)
    try {
      await mutate(caller, STOP_RUN, { runId, cascade: true })
    } catch (error) {
      if (!(error instanceof DoorError && error.code === 'CONFLICT')) throw error
    }
}

/** Executes a mutation with one input, and returns its payload. @throws DoorError */
export async function mutate<Payload extends object>(
  caller: Caller,
  document: string,
  input: object,
): Promise<Payload> {
  const results = await caller.ask<Record<string, Result<Payload>>>(document, { input })
  return resultOf(Object.values(results)[0] as Result<Payload>)
}

/** The result of a mutation, which is its payload or an expected failure. */
type Result<Payload> = Payload | Failure

interface Failure {
  code: DoorErrorCode
  message: string
  field?: string | null
  retryAfterMs?: number
}

/** Returns the payload in a result. @throws DoorError for an expected failure */
function resultOf<Payload extends object>(result: Result<Payload>): Payload {
  if (!('code' in result)) return result
  const { code, message, field, retryAfterMs } = result
  throw new DoorError(code, message, { field: field ?? null, retryAfterMs: retryAfterMs ?? null })
}

/** Returns the nodes of a connection. */
export const nodesOf = <Node>({ edges }: Connection<Node>): Node[] => edges.map(({ node }) => node)

export interface Connection<Node> {
  edges: { node: Node }[]
}

/** An event of `spaceMessages`, with the fields that the endpoints select. */
export type SpaceEvent = { cursor: string } & (
  | { __typename: 'SpaceSnapshot' }
  | { __typename: 'MessagePosted'; message: ShownMessage }
  | { __typename: 'MessageTextDelta'; messageId: string; partIndex: number; offset: number; delta: string }
  | { __typename: 'MessageTextReplaced'; messageId: string; partIndex: number; offset: number; text: string }
  | { __typename: 'MessagePartChanged'; messageId: string; part: ShownPart }
  | { __typename: 'MessageFinished'; message: ShownMessage }
  | { __typename: 'MessageUpdated'; message: { id: string; editedAt: string | null; deletedAt: string | null } }
  | { __typename: 'SpaceUpdated' | 'MemberJoined' | 'MemberLeft' }
)

export const SPACE_EVENTS = `subscription DoorEvents($spaceId: ID!, $after: StreamCursor) {
  spaceMessages(spaceId: $spaceId, after: $after) {
    __typename cursor
    ... on MessagePosted { message { ...DoorMessage } }
    ... on MessageTextDelta { messageId partIndex offset delta }
    ... on MessageTextReplaced { messageId partIndex offset text }
    ... on MessagePartChanged { messageId part { ...DoorPart } }
    ... on MessageFinished { message { ...DoorMessage } }
    ... on MessageUpdated { message { id editedAt deletedAt } }
  }
}
${MESSAGE}`

/** Reports that the status of a run has changed. */
export const ACTIVITY = `subscription DoorActivity($spaceId: ID!) { agentActivity(spaceId: $spaceId) { agent { id } runs { id status } } }`

const PLACE = `query DoorPlace($id: ID!) { space(id: $id) { streamCursor lastMessage { seq } } }`

/** Returns the current cursor of a space and the `seq` of its last message. @throws DoorError */
export async function readPlace(caller: Caller, id: string): Promise<{ cursor: string; lastSeq: number }> {
  const { space } = await caller.ask<{ space: { streamCursor: string; lastMessage: { seq: number } | null } | null }>(
    PLACE,
    { id },
  )
  if (space === null) throw notFound('There is no such space, or you are not a member of it.')
  return { cursor: space.streamCursor, lastSeq: space.lastMessage?.seq ?? 0 }
}

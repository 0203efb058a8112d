import type {
  AgentTool,
  EntityKind,
  McpServer,
  Mind,
  Routing,
  ToolExecution,
  Toolset,
} from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { AskedApproval } from '../runs/approval.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { Message } from '../spaces/message.ts'

/**
 * A failure that the model receives as the call's result, `{ "error": { "code", "message" } }`. The message
 * says what to do.
 */
export class ToolFailure extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.name = 'ToolFailure'
    this.code = code
  }
}

/** Returns the result that a model receives for a failure. */
export function failureResult(code: string, message: string): JsonObject {
  return { error: { code, message } }
}

/**
 * Returns the failure for a call whose text was already streamed in part, so that the model does not repeat
 * that text.
 */
export function heardInPart(output: Json): Json {
  const { code, message } = ((output as JsonObject | null)?.['error'] ?? {}) as { code?: string; message?: string }
  return failureResult(code ?? 'FAILED', `${message ?? ''} ${HEARD_IN_PART}`.trimStart())
}

const HEARD_IN_PART =
  'People have seen what you wrote: it stands in the space, cut off. Do not say it again; say only what is still missing.'

/** The space that a run has entered. */
export interface ActiveSpace {
  id: string
  /** The last message of the space when the run entered it. */
  seq: number
}

/** The facts that decide which tools a run gets. */
export interface ToolScene {
  agent: { id: string; name: string; toolset: Toolset; mind: Mind; tools: AgentTool[]; mcpServers: McpServer[] }
  /** The agent's spaces, with their members in join order. */
  spaces: {
    id: string
    name: string
    routing: Routing
    adminAgentId: string | null
    members: { id: string; name: string; kind: EntityKind; description: string | null }[]
  }[]
}

/** A run that this process executes, as its tools see and change it. */
export interface RunInHand {
  claim: Claim
  agent: { id: string; name: string }
  activeSpace: ActiveSpace | null
  /** Aborts when the run is stopped, out of time, or released to another worker. */
  signal: AbortSignal
  /** Set by a tool that ends the run after this step, with an outcome of its own. */
  ending: RequestedEnding | null
  /** Frees this process's slot for another run while it awaits `wait`. */
  standAside<T>(wait: Promise<T>): Promise<T>
  /** Makes a space the active one: writes it to the journal and publishes it as an event of the run. */
  enter(space: ActiveSpace): Promise<void>
}

/** An outcome that a tool requests. Its effects on other runs are written in the transaction that ends the run. */
export type RequestedEnding =
  /** Delegates the trigger to another agent of a space without posting: the run is CANCELED. */
  | { type: 'delegate'; targetAgentId: string; spaceId: string; reason: string | null }
  /** The agent has nothing to do. */
  | { type: 'skip'; reason: string | null }

/** One call of a tool. */
export interface ToolUse {
  run: RunInHand
  /** Our id of the call, `tcl_…`. It is also the idempotency key of what the call posts. */
  callId: string
  /** The call's state that survives a crash: its placement, or what the tool stored when it started. */
  state: JsonObject
  /**
   * For a tool that changes the database: runs `work` and journals the call's result in one transaction, so
   * that a call that is repeated after a crash had no effect before. An error rolls the transaction back.
   * `changed` names the ids of changed entities, each of which gets an audit entry; if it is not called, the
   * entry is for the agent.
   * @throws the error of `work`, or RunLostError
   */
  carryOut(work: (tx: Tx, changed: (ids: readonly string[]) => void) => Promise<JsonObject>): Promise<Json>
}

/** A call that is executed outside its run. */
export interface CarriedCall {
  callId: string
  signal: AbortSignal
}

/** A tool of an agent. */
export interface Tool {
  name: string
  description: string
  /** JSON Schema of the input object, which is checked before `execute`. */
  inputSchema: JsonObject
  /** The schema was written outside the server and is not trusted. */
  isForeign?: true
  /**
   * A digest of what an approval covers: the address of a call, its execution, and the tool's description. A
   * change invalidates approvals.
   */
  versionDigest?: string
  /** How calls appear in a space. */
  presence: Presence
  /**
   * Input fields that name the space and mention of the call. They are removed before the input is checked,
   * stored, shown and executed.
   */
  placement?: readonly string[]
  /** The kind of executor of an agent's own tool; null for a built-in tool. */
  execution: ToolExecution | null
  /**
   * Set for a tool that is executed outside the server; says whether it may receive content of confidential
   * spaces.
   */
  outside?: { mayReceiveConfidential: boolean }
  /** Set if a person or service returns the result: its time limit. `execute` is then not called. */
  waitMs?: number
  /**
   * Set if people must approve each call. The call is then executed outside its run, by `carryOut`, unless a
   * person or service returns its result.
   */
  approval?: AskedApproval
  /** Executes a call from its input alone, without its run. @throws ToolFailure */
  carryOut?(input: JsonObject, use: CarriedCall): Promise<Json>
  /** The model continues without the result, which arrives in the agent's inbox. */
  asynchronous?: boolean
  /** @returns the result for the model. @throws ToolFailure for a failure that the model can act on */
  execute(input: JsonObject, use: ToolUse): Promise<Json>
}

export type Presence =
  /** The call is not shown in a space. */
  | { type: 'hidden' }
  | SpeechPresence
  /** The call is shown as a part of a message in the active space. */
  | { type: 'part' }

/** One text field of the input is a message, which is streamed while the model writes it. */
export interface SpeechPresence {
  type: 'speech'
  field: string
  /**
   * Checks the fields that precede the text, so that a call that will be refused does not stream. @throws
   * ToolFailure
   */
  refuse?(before: JsonObject): Promise<void>
}

/** Posts the messages of a run. Text that was already streamed is not posted again. */
export interface Speech {
  /** Posts a text in the active space, or finishes the message that was streamed. @throws ToolFailure */
  post(use: ToolUse, text: string): Promise<Message>
  /** For tools that name their space; null if the run posts to its active space. */
  composite: CompositeSpeech | null
}

/** Posts the messages of a run whose tools name their space: all texts for one space are parts of one message. */
export interface CompositeSpeech {
  /** Adds a text to the run's message in a space. @throws ToolFailure, if possible before anything is posted */
  say(use: ToolUse, utterance: Utterance): Promise<Message>
}

export interface Utterance {
  spaceId: string
  text: string
  /** An agent member to wake. A mention finishes the message. */
  mention: string | null
  /**
   * Returns what is written in the same transaction as the text: the call's result; or the state of a call
   * that starts to wait, which finishes the message. Replies to the text come after `afterSeq`.
   */
  journals(
    message: Message,
    afterSeq: number,
  ): { type: 'result'; output: JsonObject } | { type: 'asks'; state: JsonObject; waitMs: number; people: boolean }
  /** Whether the text is the last part of its message. A mention implies it. */
  finishes: boolean
}

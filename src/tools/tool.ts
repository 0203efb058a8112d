import type { RemoteColumns } from '../agents/remote-agent.ts'
import type { Marks } from '../confidentiality/marks.ts'
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
import type { ReturnedFile, ToolFile } from '../lib/tool-file.ts'
import type { Tx } from '../platform/db.ts'
import type { AskedApproval } from '../rules/approvals.ts'
import type { Message } from '../rules/message.ts'
import type { NewFile } from '../stores/file-store.ts'
import type { RunContext, RunExecution, ToolEffects } from './run-context.ts'

/**
 * A failure that the model receives as the result of the call, in the form `{ "error": { "code", "message" } }`.
 * The message tells the model what to do.
 */
export class ToolFailure extends Error {
  readonly code: string
  /** The content that the failure has in addition to its message. */
  readonly returned: FailureDetails
  constructor(code: string, message: string, returned: FailureDetails = {}) {
    super(message)
    this.name = 'ToolFailure'
    this.code = code
    this.returned = returned
  }
}

/** The content that a failure has in addition to its message. */
export interface FailureDetails {
  /** Structured content. */
  details?: Json
  files?: readonly ToolFile[]
}

/** Returns the result that a model receives for a failure. */
export function failureResult(code: string, message: string, details?: Json): JsonObject {
  return { error: { code, message, ...(details === undefined ? {} : { details }) } }
}

/**
 * Returns the failure of a call whose text has partly been streamed. The failure tells the model not to repeat that
 * text.
 */
export function heardInPart(output: Json): Json {
  const error = (output as JsonObject | null)?.['error'] ?? {}
  const { code, message, details } = error as { code?: string; message?: string; details?: Json }
  return failureResult(code ?? 'FAILED', `${message ?? ''} ${HEARD_IN_PART}`.trimStart(), details)
}

const HEARD_IN_PART =
  'People have seen what you wrote, up to the point where it was cut off. Do not repeat that text; write only what is missing.'

/** The facts that determine which tools a run gets. */
export interface ToolScene {
  agent: RemoteColumns & { name: string; toolset: Toolset; mind: Mind; tools: AgentTool[]; mcpServers: McpServer[] }
  /** The agent's spaces. */
  spaces: {
    id: string
    name: string
    routing: Routing
    adminAgentId: string | null
    /** The number of members of the space. */
    size: number
    /**
     * The members, at most 100, with agents first. Empty if the run may not see the members, or if the prompt does
     * not show the space in detail.
     */
    members: { id: string; name: string; kind: EntityKind; description: string | null }[]
  }[]
}

/** One call to a tool. */
export interface ToolUse {
  /** The run at the time of this call. Tools do not change the run; they return effects. */
  context: RunContext
  signal: AbortSignal
  standAside: RunExecution['standAside']
  /** Parley's id of the call, `tcl_…`. It is also the idempotency key of the message that the call posts. */
  callId: string
  /** The call's state, which survives a crash: its placement, or the data that the tool stored when it started. */
  state: JsonObject
  /**
   * For a tool that changes the database: runs `work` and journals the call's result in one transaction, so that a
   * call is repeated after a crash only if it had no effect. An error rolls the transaction back. `work` passes the
   * ids of changed entities to `changed`, and each of them gets an audit entry. If `work` never calls `changed`,
   * the agent gets the entry.
   * @throws the error of `work`, or RunLostError
   */
  inTransaction(work: ToolWork): Promise<ToolReturn>
}

/** Changes the database for a tool. Returns the tool's output and the sources of the output. */
export type ToolWork = (
  tx: Tx,
  changed: (ids: readonly string[]) => void,
) => Promise<{ output: JsonObject; learned?: Partial<Marks> }>

/** The result of a call for the model, and its effects on the run, which the engine applies. */
export interface ToolReturn extends ToolOutput {
  effects?: ToolEffects
}

/** The result of a call for the model. */
export interface ToolOutput {
  output: Json
  /** Files for models that accept them. `output` describes the files. */
  files?: readonly ToolFile[]
  /** Binary content of the result. It is stored as files of the call. */
  returned?: readonly ReturnedFile[]
}

/** A call that is executed outside its run. */
export interface ApprovedCall {
  callId: string
  signal: AbortSignal
}

/** A tool of an agent. */
export interface Tool {
  name: string
  description: string
  /** The JSON Schema of the input object. Inputs are checked against it before `execute`. */
  inputSchema: JsonObject
  /** Set if the schema was written outside the server and is not trusted. */
  isForeign?: true
  /**
   * A digest of the properties that an approval covers: the URL, the execution, and the tool's description. A
   * change to any of them invalidates approvals.
   */
  versionDigest?: string
  /** How calls appear in a space. */
  presence: Presence
  /**
   * The input fields for the space and the mention of a call. They are removed before the input is checked, stored,
   * shown and executed.
   */
  placement?: readonly string[]
  /** The `execution` of an agent's own tool, which says who executes its calls; null for a built-in tool. */
  execution: ToolExecution | null
  /**
   * Set for a tool that is executed outside the server. `mayReceiveConfidential`: whether the tool may receive
   * content of confidential spaces.
   */
  outside?: { mayReceiveConfidential: boolean }
  /** The time limit if a person or service returns the result. In this case, `execute` is not called. */
  waitMs?: number
  /**
   * Set if people must approve each call. After the approval, the call is executed outside its run by
   * `executeApproved`, unless a person or service returns its result.
   */
  approval?: AskedApproval
  /**
   * Set if each person uses the tool with their own authorization. Returns the approval that a call waits for until
   * the person behind the run has connected; null if the person has connected.
   * @throws ToolFailure if there is no person behind the run
   */
  connection?(): Promise<AskedApproval | null>
  /** Executes a call outside its run, using only its input. @throws ToolFailure */
  executeApproved?(input: JsonObject, use: ApprovedCall): Promise<ToolOutput>
  /** Set if the model continues without waiting for the result. The result arrives in the agent's inbox. */
  asynchronous?: boolean
  /** Executes a call. @throws ToolFailure for a failure that the model can act on */
  execute(input: JsonObject, use: ToolUse): Promise<ToolReturn>
}

export type Presence =
  /** The call is not shown in a space. */
  | { type: 'hidden' }
  | SpeechPresence
  /** The call is shown as part of a message in the active space. */
  | { type: 'part' }

/** The tool posts. One text field of the input is a message, which is streamed while the model writes it. */
export interface SpeechPresence {
  type: 'speech'
  field: string
  /**
   * Checks the fields that precede the text, so that the text of a call that will be refused is not streamed.
   * @throws ToolFailure
   */
  refuse?(before: JsonObject): Promise<void>
}

/** Posts the messages of a run. Text that was already streamed is not posted again. */
export interface Speech {
  /** Posts a text in the active space, or finishes the message that was already streamed. @throws ToolFailure */
  post(use: ToolUse, text: string, replyTo: string | null): Promise<Message>
  /**
   * Posts a file in a space as a separate message. For a call that is repeated after a crash, returns the message
   * that was posted before.
   * @throws ToolFailure
   */
  postFile(use: ToolUse, spaceId: string, file: NewFile): Promise<{ message: Message; fileId: string }>
  /** Set for tools whose calls name their space; null if the run posts only to its active space. */
  composite: CompositeSpeech | null
}

/** Posts the messages of a run whose tools name their space. All texts for one space are parts of one message. */
export interface CompositeSpeech {
  /** Adds a text to the run's message in a space. @throws ToolFailure, if possible before any text is posted */
  say(use: ToolUse, utterance: Utterance): Promise<Message>
}

export interface Utterance {
  spaceId: string
  text: string
  /** The `replyTo` of the call. If it is absent, the text goes to the run's default thread in the space. */
  replyTo?: string
  /** An agent of the space to wake. A mention finishes the message. */
  mention: string | null
  /**
   * Returns what must be written in the same transaction as the text: the call's result or, for a call that begins
   * to wait, its state. Waiting finishes the message. Replies to the text have a higher `seq` than `afterSeq`.
   */
  journals(
    message: Message,
    afterSeq: number,
  ): { type: 'result'; output: JsonObject } | { type: 'asks'; state: JsonObject; waitMs: number; people: boolean }
  /** Whether the text is the last part of its message. A text with a mention is always the last. */
  finishes: boolean
}

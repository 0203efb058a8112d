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

/** A failure that the model sees as the call's result, `{ "error": { "code", "message" } }`; the message says what to do. */
export class ToolFailure extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.name = 'ToolFailure'
    this.code = code
  }
}

/** The result that a model gets for a failure. */
export function failureResult(code: string, message: string): JsonObject {
  return { error: { code, message } }
}

/** The same for a call of whose text people have seen a part: said again as a whole, it would stand there twice. */
export function heardInPart(output: Json): Json {
  const { code, message } = ((output as JsonObject | null)?.['error'] ?? {}) as { code?: string; message?: string }
  return failureResult(code ?? 'FAILED', `${message ?? ''} ${HEARD_IN_PART}`.trimStart())
}

const HEARD_IN_PART =
  'People have seen what you wrote: it stands in the space, cut off. Do not say it again; say only what is still missing.'

/** The space that a run has entered. */
export interface ActiveSpace {
  id: string
  /** The last message there at the moment of entering. */
  seq: number
}

/** What of the scene decides which tools a run gets. */
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

/** A run while this process executes it: what its tools may know and change. */
export interface RunInHand {
  claim: Claim
  agent: { id: string; name: string }
  activeSpace: ActiveSpace | null
  /** Aborts when the run is stopped, out of time, or handed back. */
  signal: AbortSignal
  /** Set by a tool that ends the run after this step in a way of its own. */
  ending: RequestedEnding | null
  /** Gives this process's place to another run while it waits for somebody. */
  standAside<T>(wait: Promise<T>): Promise<T>
  /** Makes a space the active one: journaled, and shown in the run's events. */
  enter(space: ActiveSpace): Promise<void>
}

/** An end that a tool asks for. What it means for others is written in the transaction that ends the run. */
export type RequestedEnding =
  /** Silently hands the trigger to another agent of a space: the run is CANCELED. */
  | { type: 'delegate'; targetAgentId: string; spaceId: string; reason: string | null }
  /** There is nothing for this agent to do. */
  | { type: 'skip'; reason: string | null }

/** One call of a tool. */
export interface ToolUse {
  run: RunInHand
  /** Our id of the call, `tcl_…`; also the key under which what it posts is posted once. */
  callId: string
  /** What the call remembers over a crash: where it shows, or what it kept itself when it began. */
  state: JsonObject
  /**
   * For a tool that changes the database: does that and journals the call's result in one transaction, so that a call that is
   * taken up after a crash has had no effect yet. Whatever throws undoes it. The audit log has an entry for each of what `work` says
   * that it has changed, by id; without a word of that, for the agent. @throws what `work` throws, RunLostError
   */
  carryOut(work: (tx: Tx, changed: (ids: readonly string[]) => void) => Promise<JsonObject>): Promise<Json>
}

/** A call that is carried out outside its run. */
export interface CarriedCall {
  callId: string
  signal: AbortSignal
}

/** What an agent can do. */
export interface Tool {
  name: string
  description: string
  /** JSON Schema of the input object: checked before `execute`. */
  inputSchema: JsonObject
  /** Somebody outside wrote its schema, which may be anything. */
  isForeign?: true
  /** Names what an approval of its calls covers: where a call goes, how it is executed, and what the tool says that it does. */
  versionDigest?: string
  /** How it is shown. */
  presence: Presence
  /** Fields of its input that say where the call shows: they are no part of what is checked, kept, shown and executed. */
  placement?: readonly string[]
  /** Who carries it out, for an agent's own tool; null for a built-in. */
  execution: ToolExecution | null
  /** It is carried out outside the server, and is given what comes from confidential spaces or not. */
  outside?: { mayReceiveConfidential: boolean }
  /** Somebody outside answers it, within this time; `execute` is not called then. */
  waitMs?: number
  /** People decide before it is carried out: not in its run then, but by `carryOut`, unless somebody outside answers it. */
  approval?: AskedApproval
  /** Carries it out by its input alone, without the run that asked for it. @throws ToolFailure */
  carryOut?(input: JsonObject, use: CarriedCall): Promise<Json>
  /** The model goes on without that answer, which comes to the agent's inbox. */
  asynchronous?: boolean
  /** @returns the result for the model. @throws ToolFailure for what the model can act on. */
  execute(input: JsonObject, use: ToolUse): Promise<Json>
}

export type Presence =
  /** Nothing of it shows in a space. */
  | { type: 'hidden' }
  | SpeechPresence
  /** The call shows as a part in the active space. */
  | { type: 'part' }

/** The text field of its input is a message, streamed while the model writes it. */
export interface SpeechPresence {
  type: 'speech'
  field: string
  /** Whether a call will be refused, as far as the fields tell that precede its text: then nothing of it streams. @throws ToolFailure */
  refuse?(before: JsonObject): Promise<void>
}

/** How a run is heard: what tools call to post. What was streamed already is not said again. */
export interface Speech {
  /** Posts a text in the active space, or finishes the message that streamed while the model wrote it. @throws ToolFailure */
  post(use: ToolUse, text: string): Promise<Message>
  /** For tools that name their space; null where the run's messages go to its active space. */
  composite: CompositeSpeech | null
}

/** How a run speaks whose tools name their space: the texts for one space are parts of one message. */
export interface CompositeSpeech {
  /** Adds a text to the run's message in that space. @throws ToolFailure, before anything is posted where that is possible */
  say(use: ToolUse, utterance: Utterance): Promise<Message>
}

export interface Utterance {
  spaceId: string
  text: string
  /** An agent member to wake: finishes the message. */
  mention: string | null
  /**
   * What is written in the same transaction as the text: the call's result, or, for a call that goes on to wait, what it
   * must remember, which finishes the message. `afterSeq`: what answers the text comes after this.
   */
  journals(
    message: Message,
    afterSeq: number,
  ): { type: 'result'; output: JsonObject } | { type: 'asks'; state: JsonObject; waitMs: number; people: boolean }
  /** Whether the text is the last part of its message. A mention makes it so too. */
  finishes: boolean
}

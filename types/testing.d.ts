// The types of `parley/testing`, without those of the server. A test compares them with the code.

/** What a difference is about. */
export type DivergenceKind = 'wake-up' | 'prompt' | 'call' | 'arguments' | 'message' | 'budget' | 'end'

/** The first difference between a recording and its replay. */
export interface Divergence {
  kind: DivergenceKind
  /** Where, as a sentence: the agent, the run and its step. */
  where: string
  /** Both sides, as text. */
  recorded: string
  replayed: string
  /** Why, as a sentence. */
  cause: string
}

/** The result of a replay. */
export interface Replayed {
  /** The replay did what the recording says. */
  isEqual: boolean
  divergence: Divergence | null
  /** Differences in wording only, and what the recording lacks, as sentences. */
  notes: string[]
  /** How many messages and runs were compared. */
  messages: number
  runs: number
}

declare const opened: unique symbol

/** A recording that was read completely. */
export interface Recording {
  readonly [opened]: true
  /** The path of its file. */
  readonly name: string
}

/** The file cannot be replayed: the message says in one sentence why, and what to do. */
export class UnusableRecordingError extends Error {
  override readonly name: 'UnusableRecordingError'
}

/** Reads a recording from a file. @throws UnusableRecordingError */
export function openRecording(file: string): Promise<Recording>

/**
 * Replays a recording on the real engine, without network, keys or a server. New connections of this process fail meanwhile.
 * @param file a path, or a recording that was read
 * @throws UnusableRecordingError
 */
export function replay(file: string | Recording): Promise<Replayed>

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** A check of the candidate. Exactly one field is set. */
export interface Check {
  /** The agent calls the tool, with these fields among the input's; `times` is 1 or more by default. */
  calls?: { agent: string; tool: string; input?: { [key: string]: Json }; times?: number }
  /** The agent posts a message that matches the regular expression; with `times: 0`, it does not. */
  says?: { agent: string; matches: string; times?: number }
  /** A model judges what was said and called. */
  rubric?: string
}

/** A result for a call that is not in the recording. The call's input must include the fields of `input`. */
export interface GivenResult {
  agent: string
  tool: string
  input?: { [key: string]: Json }
  output: Json
}

export interface CheckResult {
  name: string
  /** Null if the check holds; otherwise why it does not, as a sentence. */
  failure: string | null
}

/** The actions of one agent in a lane. */
export interface AgentSummary {
  name: string
  /** The messages that woke the agent, as their sender and number among the sender's; what else started a run. */
  wokenBy: string[]
  says: string[]
  calls: { tool: string; input: Json }[]
  tokens: number
  /** USD; null if a price is unknown. */
  cost: number | null
  /** The time of its generations, in milliseconds. */
  durationMs: number
  ends: string[]
}

export interface Backtest {
  name: string
  recorded: AgentSummary[]
  candidate: AgentSummary[]
  /** Why the replay without the change is not equal to the recording; null if it is. */
  baseline: Divergence | null
  notes: string[]
  /** Answers and results for the candidate that the recording lacks, as sentences. */
  missing: string[]
  differences: { agent: string; what: string; recorded: string; candidate: string }[]
  checks: CheckResult[]
  /** The baseline is equal, nothing is missing, and every check holds; without checks: the candidate is not different either. */
  isPassed: boolean
}

export interface BacktestOptions {
  /** Fields of UpdateAgentInput, by the agent's id. */
  changes: ReadonlyMap<string, { [key: string]: Json }>
  checks: readonly Check[]
  /** Results for calls that the candidate makes and the recording lacks. */
  results?: readonly GivenResult[]
  /** The models of the AI SDK that answer for changed agents; null for the recorded answers. */
  models: {
    /** Returns why the model cannot be called; null if it can. */
    check(model: string): string | null
    // biome-ignore lint/suspicious/noExplicitAny: a LanguageModel of whichever version of the AI SDK is installed
    resolve(model: string): Promise<any>
  } | null
  /** The model that judges rubrics. */
  judge: string | null
}

/** Plays a recording unchanged and with changed agents. Nothing is sent outside but to the models. */
export function backtest(recording: Recording, options: BacktestOptions): Promise<Backtest>

import type {
  Decision,
  Memory,
  Message,
  MessageReaction,
  Plan,
  PlanFiring,
  Run,
  ToolCall,
} from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Recorded, Recording } from './recording.ts'

/**
 * An action in a recording. A replay repeats the action, or lets the engine continue until it has performed the action.
 */
export type Action =
  | { type: 'say'; message: Recorded<Message>; text: string }
  | { type: 'edit'; message: Recorded<Message>; text: string; retriesRuns: boolean }
  | { type: 'delete'; message: Recorded<Message> }
  | { type: 'react'; reaction: Recorded<MessageReaction> }
  | { type: 'join' | 'leave'; entityId: string }
  | { type: 'update-space'; input: JsonObject }
  | { type: 'pause'; agentId: string; paused: boolean }
  | { type: 'remember'; memory: Recorded<Memory> }
  | { type: 'propose-grant'; grantId: string }
  | { type: 'decide-grant'; decision: Recording['grantDecisions'][number] }
  | { type: 'revoke-grant'; grantId: string; humanId: string | null }
  | { type: 'version'; version: Recording['versions'][number] }
  | { type: 'make-plan'; plan: Recorded<Plan>; nextRunAt: string | null }
  | { type: 'fire'; firing: Recorded<PlanFiring>; plan: Recorded<Plan> }
  | { type: 'service'; agentId: string; name: string; payload: unknown; urgent: boolean }
  | { type: 'begin'; run: Recorded<Run> }
  /** The prompt of a step is built. */
  | { type: 'step'; run: Recorded<Run>; index: number; isOptional: boolean }
  /** The model's answer is complete. */
  | { type: 'answer'; run: Recorded<Run>; index: number; isOptional: boolean }
  /** A message of a run gets its number in the space. */
  | { type: 'post'; message: Recorded<Message> }
  /** A call is executed. The first call of a step has no such action. */
  | { type: 'call'; call: Recorded<ToolCall> }
  /** A person or service outside of the server answers a call. */
  | { type: 'result'; call: Recorded<ToolCall> }
  | { type: 'decide'; call: Recorded<ToolCall>; decision: Recorded<Decision>; input: JsonObject | null }
  | { type: 'submit'; call: Recorded<ToolCall> }
  | { type: 'expire'; call: Recorded<ToolCall> }
  | { type: 'stop'; run: Recorded<Run> }
  /** A person repeats a failed run. */
  | { type: 'retry'; runId: string }

export interface ScheduledAction {
  /**
   * The time in milliseconds since 1970, according to the recorded clocks. It is never before the time of an action on
   * which this one depends.
   */
  at: number
  action: Action
}

/** An action with its key, and the keys of the actions that must precede it. */
export interface Node extends ScheduledAction {
  key: string
  after: string[]
}

/** The actions of a recording by their keys. */
export type Nodes = Map<string, Node>

export const messageKey = ({ seq }: { seq: number }) => `message ${seq}`
export const editKey = (messageId: string, number: number) => `edit ${messageId} ${number}`
export const deleteKey = (messageId: string) => `delete ${messageId}`
export const beginKey = (runId: string) => `begin ${runId}`
export const stepKey = (runId: string, index: number) => `step ${runId} ${index}`
export const answerKey = (runId: string, index: number) => `answer ${runId} ${index}`
export const callKey = (callId: string) => `call ${callId}`
export const settleKey = (callId: string) => `settle ${callId}`
export const stopKey = (runId: string) => `stop ${runId}`

/** The recorded time of a cause can be up to this much later than that of its effect, because the clocks differ. */
const SKEW_MS = 10_000

/** Makes an action follow an earlier one, unless the earlier one depends on it. */
export function addAfter(nodes: Nodes, key: string, earlier: string): void {
  const node = nodes.get(key)
  if (node === undefined || key === earlier || node.after.includes(earlier)) return
  const seen = new Set<string>()
  const open = [earlier]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === key) return
    const one = nodes.get(next)
    if (one === undefined || seen.has(next) || one.at < node.at - SKEW_MS) continue
    seen.add(next)
    open.push(...one.after)
  }
  node.after.push(earlier)
}

/**
 * Sorts actions by time, but never puts an action before one on which it depends. Times are raised where this order
 * requires it.
 */
export function inOrder(nodes: Nodes): ScheduledAction[] {
  const placed = new Map<string, { at: number; depth: number }>()
  const open = new Set<string>()
  function place(node: Node): { at: number; depth: number } {
    const known = placed.get(node.key)
    if (known !== undefined) return known
    // Actions of one recording can depend on each other in a circle only if their times are wrong.
    if (open.has(node.key)) return { at: node.at, depth: 0 }
    open.add(node.key)
    const before = node.after.flatMap((key) => {
      const one = nodes.get(key)
      return one === undefined ? [] : [place(one)]
    })
    open.delete(node.key)
    const found = {
      at: Math.max(node.at, ...before.map(({ at }) => at)),
      depth: Math.max(0, ...before.map(({ depth }) => depth + 1)),
    }
    placed.set(node.key, found)
    return found
  }
  return [...nodes.values()]
    .map((node) => ({ node, ...place(node) }))
    .toSorted((a, b) => a.at - b.at || a.depth - b.depth || (a.node.key < b.node.key ? -1 : 1))
    .map(({ node: { action }, at }) => ({ at, action }))
}

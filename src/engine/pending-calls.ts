import { maxToolCallsOf } from '../agents/agent-settings.ts'
import type { SceneAgent } from '../context/scene.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { SpaceWriter } from '../posting/space-writer.ts'
import { isExecutedByWorker } from '../rules/approvals.ts'
import type { Journal, JournaledCall, JournaledStep } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { Settlement } from '../stores/call-store.ts'
import type { RequestedEnding, RunExecution } from '../tools/run-context.ts'
import { failureResult, type Tool } from '../tools/tool.ts'
import { callsIn, failureIn, type PerformEnd } from './step-end.ts'
import type { CallEnd, ToolRunner } from './tool-runner.ts'

interface PendingCallParts {
  run: RunExecution
  agent: SceneAgent
  tools: ReadonlyMap<string, Tool>
  runner: ToolRunner
  journal: Pick<Journal, 'settled'>
  writer: Pick<SpaceWriter, 'close'>
  events: Pick<RunEvents, 'emit'>
}

/**
 * Executes the calls of the last step that have no result yet, in order. Does nothing if the generation was cut off.
 * @returns the step with the results, and an end if the run stops after the calls
 */
export async function executePendingCalls(
  parts: PendingCallParts,
  steps: readonly JournaledStep[],
  last: JournaledStep,
): Promise<{ step: JournaledStep; end: PerformEnd | null }> {
  const { run, agent } = parts
  const step = { ...last, calls: [...last.calls] }
  if (failureIn(last) !== null) return { step, end: null }
  resumeEnding(run, last)
  const allowed = maxToolCallsOf(agent) - callsIn(steps.slice(0, -1))
  const waitingIds: string[] = []
  for (const [index, call] of last.calls.entries()) {
    if (call.settledAt !== null) continue
    const end = await executeCall(parts, call, { isAllowed: index < allowed })
    if (end.type === 'aborted' || run.signal.aborted) return { step, end: { type: 'aborted' } }
    step.calls[index] = callAfter(call, end)
    // A think cycle does not wait for the result, which arrives in its agent's inbox.
    if (end.type === 'waiting' && run.context.run.triggerType !== 'INBOX') waitingIds.push(call.id)
  }
  return { step, end: waitingIds.length > 0 ? { type: 'waiting', callIds: waitingIds } : null }
}

/** Applies the end that a tool of the step requested. Needed if a worker died after it had journaled the request. */
export function resumeEnding(run: RunExecution, { calls }: JournaledStep): void {
  const states = calls.map(({ state }) => state as { ending?: RequestedEnding } | null)
  const ending = states.find((state) => state?.ending != null)?.ending
  if (run.context.ending === null && ending != null) run.apply({ ending })
}

async function executeCall(
  parts: PendingCallParts,
  call: JournaledCall,
  { isAllowed }: { isAllowed: boolean },
): Promise<CallEnd> {
  if (isLeftToOthers(call)) return { type: 'waiting', isAsked: call.approvalState !== null }
  const tool = parts.tools.get(call.toolName)
  const end =
    tool !== undefined && isAllowed
      ? await parts.runner.runTool(tool, call)
      : await refuse(parts, call, isAllowed ? goneTool(call.toolName) : TOO_MANY_CALLS)
  if (end.type === 'settled') parts.events.emit({ type: 'RunToolReturned', toolCallId: call.id })
  return end
}

/** Whether the call waits for a person or service, or was approved, so that any worker executes it as a job. */
const isLeftToOthers = (call: JournaledCall) => call.status === 'WAITING' || isExecutedByWorker(call)

/** Returns the call with its new state in the journal. */
function callAfter(call: JournaledCall, end: Exclude<CallEnd, { type: 'aborted' }>): JournaledCall {
  if (end.type === 'settled') {
    const { files = [], ...settlement } = end.settlement
    return { ...call, ...settlement, files: files as unknown as Prisma.JsonArray, settledAt: new Date() }
  }
  if (isLeftToOthers(call)) return call
  return { ...call, status: 'WAITING', approvalState: end.isAsked ? 'PENDING' : null }
}

async function refuse(
  { run, journal, writer }: PendingCallParts,
  { id }: JournaledCall,
  settlement: Settlement,
): Promise<CallEnd> {
  if (!(await writer.close({ toolCallId: id, ...settlement })))
    run.apply({ learned: await journal.settled(run.context, id, settlement) })
  return { type: 'settled', settlement }
}

/** The failure of a call to a tool that the agent lost after the model had called it. */
const goneTool = (name: string) => refusal('NO_SUCH_TOOL', `You no longer have the tool ${name}.`)
const TOO_MANY_CALLS = refusal('TOO_MANY_CALLS', 'This run has reached its limit of tool calls.')

function refusal(code: string, message: string): Settlement {
  return { status: 'FAILED', output: failureResult(code, message), error: message }
}

import type { Discretion } from '../confidentiality/discretion.ts'
import type { AwaitAnswer } from '../flows/await-answer.ts'
import type { DecideCall } from '../flows/decide-call.ts'
import type { KeepFiles, Kept } from '../flows/keep-files.ts'
import type { UseGrant } from '../flows/use-grant.ts'
import { unlessAborted } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { type Json, type JsonObject, storableText, toJson } from '../lib/json.ts'
import { checkInput } from '../lib/schema-checks.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { isConfidential } from '../posting/guard.ts'
import { isMessageEnded } from '../posting/run-messages.ts'
import type { SpaceWriter } from '../posting/space-writer.ts'
import { type AskedApproval, digestOf, termsOf } from '../rules/approvals.ts'
import { requesterOf } from '../rules/requester.ts'
import { RunLostError } from '../runs/hold.ts'
import type { Journal, JournaledCall } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { NewWait, Settlement } from '../stores/call-store.ts'
import type { RunExecution, ToolEffects } from '../tools/run-context.ts'
import { noActiveSpace, orConfidential } from '../tools/space/failures.ts'
import { failureResult, heardInPart, type Tool, ToolFailure, type ToolOutput, type ToolUse } from '../tools/tool.ts'
import { recordRefusal } from './refusals.ts'

/** The outcome of a call. */
export type CallEnd =
  /** The result is journaled and is shown to the model. */
  | { type: 'settled'; settlement: Settlement }
  /** The call waits for a person or service. */
  | { type: 'waiting'; isAsked: boolean }
  /** The run's signal was aborted. If there is a next attempt, it executes the call. */
  | { type: 'aborted' }

/**
 * Executes the journaled calls of one run, each once: validates the input, shows the call, runs the tool, and journals
 * the result.
 */
export interface ToolRunner {
  /** @throws RunLostError, and errors of the database */
  runTool(tool: Tool, call: JournaledCall): Promise<CallEnd>
}

const RUN_IS_OVER = 'You have ended this run: no further calls are executed.'
const NO_TARGET_SPACE =
  'A member of a space answers this tool: name the space in which to show it as targetSpaceId, one of YOUR SPACES.'

const CHANGED_MEANWHILE =
  'This tool was changed while the call was interrupted: it may have been called before. Call it again if the result is still needed.'

interface RunnerParts {
  platform: Platform
  run: RunExecution
  journal: Journal
  events: Pick<RunEvents, 'emit'>
  awaitAnswer: AwaitAnswer['awaitAnswer']
  decideCall: Pick<DecideCall, 'recheck' | 'connected'>
  useGrant: UseGrant['useGrant']
  keepFiles: KeepFiles['keepFiles']
  discretion: Pick<Discretion, 'toLeave'>
  writer: SpaceWriter
}

export function createToolRunner({
  platform,
  run,
  journal,
  events,
  awaitAnswer,
  decideCall,
  useGrant,
  keepFiles,
  discretion,
  writer,
}: RunnerParts): ToolRunner {
  const { logger } = platform
  /** The calls whose results were journaled together with their database changes. */
  const journaled = new Set<string>()

  function useOf(call: JournaledCall): ToolUse {
    const { context, signal, standAside } = run
    return {
      context,
      signal,
      standAside,
      callId: call.id,
      state: (call.state ?? {}) as JsonObject,
      async inTransaction(work) {
        const { output, learned } = await journal.settledWith(run.context, call.id, work)
        run.apply({ learned })
        journaled.add(call.id)
        return { output }
      },
    }
  }

  /**
   * Validates the input, and shows the call if it is visible.
   * @returns what the call waits for; null if it is executed here
   * @throws ToolFailure
   */
  async function beginCall(tool: Tool, call: JournaledCall, use: ToolUse): Promise<NewWait | null> {
    if (use.context.ending !== null) throw new ToolFailure('RUN_IS_OVER', RUN_IS_OVER)
    const fault = await checkInput(tool, call.input, requesterOf(use.context.run))
    if (fault !== null) {
      // Calls with invalid input are shown too.
      if (tool.presence.type === 'part') await writer.show(use, { wait: null, at: 'call' })
      throw new ToolFailure('BAD_INPUT', fault)
    }
    if (tool.outside !== undefined) orConfidential(await discretion.toLeave(run.context.run, tool.outside))
    return beginValid(tool, call, use)
  }

  async function beginValid(tool: Tool, call: JournaledCall, use: ToolUse): Promise<NewWait | null> {
    const connection = (await tool.connection?.()) ?? null
    const asked = connection === null ? tool : { ...tool, approval: connection }
    const isGranted = connection === null && tool.approval !== undefined && (await isCovered(tool.approval, call, use))
    const wait = waitOf(asked, call.input as JsonObject, { isGranted })
    const at = isGranted || wait?.approval !== undefined ? 'question' : 'call'
    const isPart = tool.presence.type === 'part' || at === 'question'
    const shows = isPart && (await writer.show(use, { wait, at }))
    if (wait === null) return null
    if (!shows) await waitUnseen(tool, use.callId, wait)
    if (connection !== null) await continueConnected(tool, connection, use)
    if (wait.approval !== undefined) await decideCall.recheck({ toolCallId: use.callId })
    return wait
  }

  /**
   * Continues the call if the person connected before the call began to wait, because no other code continues it in
   * this case.
   */
  async function continueConnected(
    tool: Tool,
    { connects, approverIds: [humanId = ''] }: AskedApproval,
    { context }: ToolUse,
  ): Promise<void> {
    // An error is ignored, because the call already waits and must not fail here.
    const still = await tool.connection?.().catch(() => undefined)
    if (still !== null || connects === undefined) return
    await decideCall.connected({ agentId: context.run.agentId, serverName: connects.serverName, humanId })
  }

  /**
   * Whether a standing grant covers the call. A result that was recorded before a crash is used again. @throws
   * ToolFailure
   */
  async function isCovered(approval: AskedApproval, call: JournaledCall, { state }: ToolUse): Promise<boolean> {
    const { id, toolName, input } = call
    if (call.grantId !== null) {
      if (termsOf(call)?.grantDigest !== approval.grantDigest) throw new ToolFailure('TOOL_CHANGED', CHANGED_MEANWHILE)
      return true
    }
    const spaceId = writer.spaceOfQuestion(state)
    return useGrant(run.context, { id, toolName, input: input as JsonObject, approval, spaceId })
  }

  async function waitUnseen(tool: Tool, callId: string, wait: NewWait): Promise<void> {
    const isAskedByName = wait.approval !== undefined && wait.approval.approverIds.length > 0
    if (wait.approval !== undefined && (!isAskedByName || tool.execution === 'SPACE')) throw noActiveSpace()
    if (tool.execution === 'SPACE') throw new ToolFailure('NO_TARGET_SPACE', NO_TARGET_SPACE)
    await awaitAnswer(run.context, callId, wait)
  }

  async function executeTool(tool: Tool, input: JsonObject, use: ToolUse): Promise<Settlement> {
    // A tool that ignores the signal continues to run, but its result is discarded.
    const { effects, ...returned } = await unlessAborted(run.signal, tool.execute(input, use))
    if (effects !== undefined) await applyToolEffects(effects, use)
    return doneWith(
      returned,
      await keepFiles({ id: use.callId, agentId: run.context.run.agentId }, returned.returned ?? [], run.signal),
    )
  }

  /** Applies the effects of a call, and journals those that a resumed run needs. */
  async function applyToolEffects(effects: ToolEffects, { callId, state }: ToolUse): Promise<void> {
    const { entered, ending } = effects
    run.apply(effects)
    if (entered !== undefined) {
      await journal.entered(run.context, entered.id, entered.seq)
      events.emit({ type: 'RunSpaceEntered', spaceId: entered.id })
    }
    if (ending !== undefined) await journal.remember(run.context, callId, { ...state, ending: toJson(ending) })
  }

  /**
   * Returns the settlement of a failed call. If people have already seen a part of its text, the result says this,
   * unless somebody else ended the message.
   */
  async function settlementOf(error: unknown, tool: Tool, call: JournaledCall): Promise<Settlement> {
    const { id: runId, agentId } = run.context.run
    if (!(error instanceof ToolFailure))
      logger.error({ runId, tool: tool.name, error: messageOf(error) }, 'the tool threw an unexpected error')
    const settlement = failureOf(error)
    if (isConfidential(error)) {
      const { id, toolName, input } = call
      const activeSpaceId = run.context.activeSpace?.id ?? null
      await recordRefusal(platform.db.prisma, { id, toolName, input, runId, agentId, activeSpaceId })
    }
    const isNews = !isMessageEnded(error) && (await writer.isHeard(call.id))
    return isNews ? { ...settlement, output: heardInPart(settlement.output) } : settlement
  }

  async function settle(callId: string, settlement: Settlement): Promise<void> {
    if (journaled.has(callId) || (await writer.close({ toolCallId: callId, ...settlement }))) return
    run.apply({ learned: await journal.settled(run.context, callId, settlement) })
  }

  return {
    async runTool(tool, call) {
      await platform.conductor?.reached({ type: 'call', runId: run.context.run.id, callId: call.id })
      let settlement: Settlement
      try {
        const use = useOf(call)
        const input = call.input as JsonObject
        const wait = await beginCall(tool, call, use)
        if (wait !== null) return { type: 'waiting', isAsked: wait.approval !== undefined }
        settlement = await executeTool(tool, input, use)
      } catch (error) {
        if (run.signal.aborted) return { type: 'aborted' }
        if (error instanceof RunLostError || isOutage(error)) throw error
        settlement = await settlementOf(error, tool, call)
      }
      await settle(call.id, settlement)
      return { type: 'settled', settlement }
    },
  }
}

/** Returns what a call waits for, and for how long; null if it is executed at once. */
function waitOf({ approval, waitMs }: Tool, input: JsonObject, { isGranted }: { isGranted: boolean }): NewWait | null {
  if (approval !== undefined && !isGranted)
    return { waitMs: approval.expiresInSeconds * 1000, approval: { ...approval, writtenDigest: digestOf(input) } }
  return waitMs === undefined ? null : { waitMs }
}

/** Returns the settlement of a call that succeeded, with its stored files. */
export function doneWith({ output, files = [] }: ToolOutput, { entries, rows }: Kept): Settlement {
  return { status: 'DONE', output: toJson(output), error: null, files: [...files, ...entries], kept: rows }
}

/**
 * Converts an error from a tool to a result. The result contains the message of a ToolFailure, but no internal details
 * of other errors.
 */
export function failureOf(error: unknown): Settlement {
  if (!(error instanceof ToolFailure)) return failedWith('TOOL_FAILED', UNEXPECTED)
  const { details, files = [] } = error.returned
  return { ...failedWith(error.code, storableText(error.message), details), files }
}

const UNEXPECTED = 'The tool failed unexpectedly. Try something else.'

function failedWith(code: string, message: string, details?: Json): Settlement {
  const output = failureResult(code, message, details === undefined ? undefined : toJson(details))
  return { status: code === 'TIMED_OUT' ? code : 'FAILED', output, error: message }
}

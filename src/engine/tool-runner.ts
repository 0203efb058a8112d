import type { Discretion } from '../confidence/discretion.ts'
import { unlessAborted } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { type Json, type JsonObject, storableText, toJson } from '../lib/json.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { digestOf } from '../runs/approval.ts'
import type { Approvals } from '../runs/approvals.ts'
import { RunLostError } from '../runs/hold.ts'
import type { Journal, JournaledCall } from '../runs/journal.ts'
import type { NewWait, Settlement } from '../runs/tool-calls.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import { isConfidential } from '../speech/guard.ts'
import { isMessageEnded } from '../speech/run-posting.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import { checkInput, requesterOf } from '../tools/custom/schema-checks.ts'
import { noActiveSpace, orConfidential } from '../tools/space/failures.ts'
import { failureResult, heardInPart, type RunInHand, type Tool, ToolFailure, type ToolUse } from '../tools/tool.ts'
import { recordRefusal } from './refusals.ts'

/** The outcome of a call. */
export type CallEnd =
  /** The result is journaled and goes to the model. */
  | { type: 'settled'; settlement: Settlement }
  /** Somebody outside the run will answer. */
  | { type: 'waiting'; isAsked: boolean }
  /** The run's signal aborted; the next attempt, if any, executes the call. */
  | { type: 'aborted' }

/**
 * Executes the journaled calls of one run, each once: validates the input, shows the call, runs the
 * tool, journals the result.
 */
export interface ToolRunner {
  /** @throws RunLostError, database errors */
  carryOut(tool: Tool, call: JournaledCall): Promise<CallEnd>
}

const RUN_IS_OVER = 'You have ended this run: nothing more is done in it.'
const NO_TARGET_SPACE =
  'A member of a space answers this tool: name the space in which to show it as targetSpaceId, one of YOUR SPACES.'

interface RunnerParts {
  platform: Platform
  run: RunInHand
  journal: Journal
  waits: ToolWaits
  approvals: Pick<Approvals, 'recheck'>
  discretion: Pick<Discretion, 'toLeave'>
  writer: SpaceWriter
}

export function createToolRunner({
  platform,
  run,
  journal,
  waits,
  approvals,
  discretion,
  writer,
}: RunnerParts): ToolRunner {
  const { logger } = platform

  async function waitUnseen(tool: Tool, callId: string, wait: NewWait): Promise<void> {
    const isAskedByName = wait.approval !== undefined && wait.approval.approverIds.length > 0
    if (wait.approval !== undefined && (!isAskedByName || tool.execution === 'SPACE')) throw noActiveSpace()
    if (tool.execution === 'SPACE') throw new ToolFailure('NO_TARGET_SPACE', NO_TARGET_SPACE)
    await waits.begin(run.claim, callId, wait)
  }

  /** @returns the tool's output, or null if somebody outside the run will answer */
  async function attempt(tool: Tool, input: JsonObject, use: ToolUse): Promise<{ output: Json } | null> {
    if (run.ending !== null) throw new ToolFailure('RUN_IS_OVER', RUN_IS_OVER)
    const fault = await checkInput(tool, input, requesterOf(run.claim.run))
    const wait = fault === null ? waitOf(tool, input) : null
    if (fault === null && tool.outside !== undefined)
      orConfidential(await discretion.toLeave(run.claim.run, tool.outside))
    const isPart = tool.presence.type === 'part' || wait?.approval !== undefined
    const shows = isPart && (await writer.show(use, wait))
    if (fault !== null) throw new ToolFailure('BAD_INPUT', fault)
    if (wait !== null) {
      if (!shows) await waitUnseen(tool, use.callId, wait)
      if (wait.approval !== undefined) await approvals.recheck({ toolCallId: use.callId })
      return null
    }
    // A tool that ignores the signal keeps running; its result is discarded.
    return { output: await unlessAborted(run.signal, tool.execute(input, use)) }
  }

  async function settle(callId: string, settlement: Settlement): Promise<void> {
    if (!(await writer.close({ toolCallId: callId, ...settlement })))
      await journal.settled(run.claim, callId, settlement)
  }

  async function refused({ id, toolName, input }: JournaledCall): Promise<void> {
    const { id: runId, agentId } = run.claim.run
    const activeSpaceId = run.activeSpace?.id ?? null
    await recordRefusal(platform.db.prisma, { id, toolName, input, runId, agentId, activeSpaceId })
  }

  /**
   * The settlement of a failed call. Mentions that people have seen part of its text, unless somebody
   * else ended the message.
   */
  async function failed(error: unknown, call: JournaledCall): Promise<Settlement> {
    const settlement = failureOf(error)
    if (isConfidential(error)) await refused(call)
    const isNews = !isMessageEnded(error) && (await writer.isHeard(call.id))
    return isNews ? { ...settlement, output: heardInPart(settlement.output) } : settlement
  }

  return {
    async carryOut(tool, call) {
      let settlement: Settlement
      let isJournaled = false
      const { ending } = run
      const carryOut: ToolUse['carryOut'] = async (work) => {
        const output = await journal.carriedOut(run.claim, call.id, work)
        isJournaled = true
        return output
      }
      const state = (call.state ?? {}) as JsonObject
      try {
        const answer = await attempt(tool, call.input as JsonObject, { run, callId: call.id, state, carryOut })
        if (answer === null) return { type: 'waiting', isAsked: tool.approval !== undefined }
        if (run.ending !== ending) await journal.remember(run.claim, call.id, { ...state, ending: toJson(run.ending) })
        settlement = { status: 'DONE', output: toJson(answer.output), error: null }
      } catch (error) {
        if (run.signal.aborted) return { type: 'aborted' }
        if (error instanceof RunLostError || isOutage(error)) throw error
        settlement = await failed(error, call)
        if (!(error instanceof ToolFailure))
          logger.error(
            { runId: run.claim.run.id, tool: tool.name, error: messageOf(error) },
            'the tool threw an unexpected error',
          )
      }
      if (!isJournaled) await settle(call.id, settlement)
      return { type: 'settled', settlement }
    },
  }
}

/** What a call has to wait for; null if it is executed at once. */
function waitOf({ approval, waitMs }: Tool, input: JsonObject): NewWait | null {
  if (approval !== undefined)
    return { waitMs: approval.expiresInSeconds * 1000, approval: { ...approval, writtenDigest: digestOf(input) } }
  return waitMs === undefined ? null : { waitMs }
}

/** A tool error as a result: a ToolFailure in its own words, any other error without internal details. */
export function failureOf(error: unknown): Settlement {
  const known = error instanceof ToolFailure
  const message = known ? storableText(error.message) : 'The tool failed unexpectedly. Try something else.'
  const code = known ? error.code : 'TOOL_FAILED'
  return { status: code === 'TIMED_OUT' ? code : 'FAILED', output: failureResult(code, message), error: message }
}

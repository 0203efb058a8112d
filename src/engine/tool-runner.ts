import { unlessAborted } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { type Json, type JsonObject, storableText, toJson } from '../lib/json.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { RunLostError } from '../runs/hold.ts'
import type { Journal, JournaledCall } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { Settlement } from '../runs/tool-calls.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import { checkInput } from '../tools/custom/json-schema.ts'
import { failureResult, type RunInHand, type Tool, ToolFailure, type ToolUse } from '../tools/tool.ts'

/** What became of a call. */
export type CallEnd =
  /** The model gets its output; it is journaled. */
  | { type: 'settled'; settlement: Settlement }
  /** Somebody outside will answer. */
  | { type: 'waiting' }
  /** The run's signal aborted: whoever takes the run up carries it out, if anybody does. */
  | { type: 'aborted' }

/** Carries out the journaled calls of one run, each once: input check, presence in the space, the tool, the journal, the event. */
export interface ToolRunner {
  /** @throws RunLostError, or the database's fault */
  carryOut(tool: Tool, call: JournaledCall): Promise<CallEnd>
}

const RUN_IS_OVER = 'You have ended this run: nothing more is said or shown in it.'
const NO_TARGET_SPACE =
  'A member of a space answers this tool: name the space in which to show it as targetSpaceId, one of YOUR SPACES.'

interface RunnerParts {
  platform: Platform
  run: RunInHand
  journal: Journal
  waits: ToolWaits
  writer: SpaceWriter
  events: RunEvents
}

export function createToolRunner({ platform, run, journal, waits, writer, events }: RunnerParts): ToolRunner {
  const { logger } = platform

  async function waitUnseen(tool: Tool, callId: string, waitMs: number): Promise<void> {
    if (tool.execution === 'SPACE') throw new ToolFailure('NO_TARGET_SPACE', NO_TARGET_SPACE)
    await waits.begin(run.claim, callId, waitMs)
  }

  /** @returns the tool's output, or null when somebody outside will answer. */
  async function attempt(tool: Tool, input: JsonObject, use: ToolUse): Promise<{ output: Json } | null> {
    if (run.ending !== null && tool.presence.type !== 'hidden') throw new ToolFailure('RUN_IS_OVER', RUN_IS_OVER)
    const fault = checkInput(tool.inputSchema, input)
    const waitMs = tool.waitMs === undefined || fault !== null ? null : tool.waitMs
    const shows = tool.presence.type === 'part' && (await writer.show(use, waitMs))
    if (fault !== null) throw new ToolFailure('BAD_INPUT', fault)
    if (waitMs !== null) {
      if (!shows) await waitUnseen(tool, use.callId, waitMs)
      return null
    }
    // A tool that ignores the signal goes on alone: its result is discarded.
    return { output: await unlessAborted(run.signal, tool.execute(input, use)) }
  }

  async function settle(callId: string, settlement: Settlement): Promise<void> {
    if (!(await writer.close({ toolCallId: callId, ...settlement })))
      await journal.settled(run.claim, callId, settlement)
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
        if (answer === null) return { type: 'waiting' }
        if (run.ending !== ending) await journal.remember(run.claim, call.id, { ...state, ending: toJson(run.ending) })
        settlement = { status: 'DONE', output: toJson(answer.output), error: null }
      } catch (error) {
        if (run.signal.aborted) return { type: 'aborted' }
        if (error instanceof RunLostError || isOutage(error)) throw error
        settlement = failureOf(error)
        if (!(error instanceof ToolFailure))
          logger.error({ runId: run.claim.run.id, tool: tool.name, error: messageOf(error) }, 'a tool broke')
      }
      if (!isJournaled) await settle(call.id, settlement)
      events.emit({ type: 'RunToolReturned', toolCallId: call.id })
      return { type: 'settled', settlement }
    },
  }
}

/** What a tool threw, as a result: its own failures in its words, anything unexpected without what happened inside. */
function failureOf(error: unknown): Settlement {
  const known = error instanceof ToolFailure
  const message = known ? storableText(error.message) : 'The tool failed unexpectedly. Try something else.'
  const code = known ? error.code : 'TOOL_FAILED'
  return { status: code === 'TIMED_OUT' ? code : 'FAILED', output: failureResult(code, message), error: message }
}

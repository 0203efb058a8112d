import { aborted } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { type Json, type JsonObject, toJson } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import type { Journal, Settlement } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import { RunLostError } from '../spaces/posting.ts'
import { checkInput } from '../tools/custom/json-schema.ts'
import { failureResult, type RunInHand, type Tool, ToolFailure, WAITING } from '../tools/tool.ts'
import type { SpaceWriter } from './space-writer.ts'

/** Executes the journaled calls of one run, each once: input check, presence in the space, the tool, the journal, the event. */
export interface ToolRunner {
  /** @returns what the model gets, or WAITING when somebody else will answer. @throws RunLostError, or the signal's reason */
  execute(tool: Tool, callId: string, input: Json): Promise<Json | typeof WAITING>
}

interface RunnerParts {
  platform: Platform
  run: RunInHand
  journal: Journal
  waits: ToolWaits
  writer: SpaceWriter
  events: RunEvents
}

export function createToolRunner({ platform, run, journal, waits, writer, events }: RunnerParts): ToolRunner {
  const { clock, logger } = platform

  async function attempt(tool: Tool, callId: string, input: JsonObject): Promise<Json | typeof WAITING> {
    const fault = checkInput(tool.inputSchema, input)
    const waitsUntil = tool.waitMs === undefined || fault !== null ? null : new Date(clock.now() + tool.waitMs)
    if (tool.presence.type === 'part') await writer.show(callId, waitsUntil)
    if (fault !== null) throw new ToolFailure('BAD_INPUT', fault)
    if (waitsUntil !== null) {
      if (tool.presence.type !== 'part') await waits.begin(run.claim, callId, waitsUntil)
      return WAITING
    }
    // A tool that ignores the signal goes on alone: its result is discarded.
    const gone = aborted(run.signal).then(() => Promise.reject(run.signal.reason))
    gone.catch(() => {})
    return Promise.race([tool.execute(input, { run, callId }), gone])
  }

  async function settle(tool: Tool, callId: string, settlement: Settlement): Promise<void> {
    const { status, output, error } = settlement
    const spoke = tool.presence.type === 'speech' && status === 'DONE'
    const result = { toolCallId: callId, status: status === 'DONE' ? status : ('FAILED' as const), output, error }
    if (!spoke && !(await writer.close(result))) await journal.settled(run.claim, callId, settlement)
    events.emit({ type: 'RunToolReturned', toolCallId: callId })
  }

  return {
    async execute(tool, callId, input) {
      let settlement: Settlement
      try {
        const output = await attempt(tool, callId, input as JsonObject)
        if (output === WAITING) return WAITING
        settlement = { status: 'DONE', output: toJson(output), error: null }
      } catch (error) {
        if (error instanceof RunLostError || run.signal.aborted) throw error
        settlement = failureOf(error)
        if (!(error instanceof ToolFailure))
          logger.error({ runId: run.claim.run.id, tool: tool.name, error: messageOf(error) }, 'a tool broke')
      }
      await settle(tool, callId, settlement)
      return settlement.output
    },
  }
}

/** What a tool threw, as a result: its own failures in its words, anything unexpected without what happened inside. */
function failureOf(error: unknown): Settlement {
  const known = error instanceof ToolFailure
  const message = known ? error.message : 'The tool failed unexpectedly. Try something else.'
  return { status: 'FAILED', output: failureResult(known ? error.code : 'TOOL_FAILED', message), error: message }
}

import type { Run, Step, ToolCall } from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import { logContext } from '../lib/log-context.ts'
import type { CallOptions } from '../models/language-model.ts'
import type { ModelAnswer } from './recorded-model.ts'
import type { RecordedAnswer } from './recorded-tools.ts'
import type { Recorded } from './recording.ts'
import { isOutside } from './schedule.ts'
import {
  type GivenResult,
  includesFields,
  learnCalls,
  learnMessages,
  nameOf,
  prismaOf,
  recordedRunOf,
  type World,
} from './world.ts'

/** Returns the position of a generation: its run, and the number of the run's journaled steps. */
async function placeOfGeneration(world: World): Promise<{ runId: string; agentId: string; index: number } | null> {
  const context = logContext()
  if (context === undefined || !('runId' in context)) return null
  const { runId, agentId } = context
  const run = await prismaOf(world).run.findUniqueOrThrow({ where: { id: runId }, select: { stepCount: true } })
  return { runId, agentId, index: run.stepCount }
}

/** Returns a model's answer. The options of the replay can provide it. By default, it is the recorded answer. */
export async function answerModel(world: World, model: string, callOptions: CallOptions): Promise<ModelAnswer> {
  const place = await placeOfGeneration(world)
  if (place === null) return { type: 'none' }
  const { runId, agentId, index } = place
  await learnMessages(world)
  await learnCalls(world, runId)
  const run = recordedRunOf(world, runId)
  const step = world.recording.steps.find((one) => one.runId === run?.id && one.index === index)
  const given = await world.options.model?.({ model, agentId, options: callOptions, step })
  if (given != null) return given
  if (step !== undefined) return stepAnswer(world, model, step)
  return answerWithoutStep(world, run, { agentId, index })
}

function stepAnswer({ ids, used }: World, model: string, step: Recorded<Step>): ModelAnswer {
  const failed = (step.failedModels as { model: string; error: string }[]).find((one) => one.model === model)
  const key = `${step.id} ${model}`
  if (failed === undefined || used.has(key))
    return { type: 'step', step: { ...step, assistant: ids.toReplay(step.assistant) } }
  used.add(key)
  return { type: 'failure', error: failed.error, fault: null, hasFallback: true }
}

const NO_ANSWER = 'The recording has no model response for this step.'

/**
 * Returns the answer if the recording has no step, because the model failed, the run was stopped, or data is missing.
 */
function answerWithoutStep(
  { isFree, missing, recording }: World,
  run: Recorded<Run> | undefined,
  { agentId, index }: { agentId: string; index: number },
): ModelAnswer {
  if (run?.stopReason === 'MODEL_FAILED' && run.error !== null)
    return { type: 'failure', error: run.error, fault: run.fault }
  if (run?.status === 'CANCELED') return { type: 'none' }
  const name = nameOf(recording, agentId)
  missing.add(
    run === undefined
      ? `${name} was woken, and the recording has no run of ${name} at this point.`
      : `${name} called its model for step ${index}, and the recording has no such step.`,
  )
  return isFree ? { type: 'failure', error: NO_ANSWER, fault: null } : { type: 'none' }
}

/** Resolves when the recorded order allows the answer of a generation to end. */
export async function completeAnswer(world: World): Promise<void> {
  const place = await placeOfGeneration(world)
  if (place === null || world.isFree) return
  await world.gates.reach(`answer ${place.runId} ${place.index}`, place.runId)
}

/** Returns the recorded result of a call that would otherwise leave the server. */
export async function answerCall(world: World, callId: string): Promise<RecordedAnswer> {
  const { gates, ids, isFree, missing, used } = world
  const call = await prismaOf(world).toolCall.findUniqueOrThrow({ where: { id: callId } })
  const found = recordedCallLike(world, call)
  if (found === undefined) {
    const given = givenResultOf(world, call)
    if (given !== undefined) return { type: 'output', output: given.output }
    missing.add(`The recording has no result for ${call.toolName}(${JSON.stringify(call.input)}).`)
    return { type: 'failure', code: 'NOT_RECORDED', message: 'The recording has no result for this call.' }
  }
  used.add(found.id)
  ids.link(found.id, callId)
  if (!isFree) await gates.reach(`result ${found.id}`, call.runId)
  return answerOf(found, ids.toReplay(found.output as Json))
}

/** Returns the first result that the options of the replay provide for a call. */
function givenResultOf({ options, recording }: World, call: ToolCall): GivenResult | undefined {
  const name = nameOf(recording, call.agentId).toLowerCase()
  return options.results?.find(
    ({ agent, tool, input = {} }) =>
      agent.toLowerCase() === name && tool === call.toolName && includesFields(call.input as Json, input),
  )
}

/**
 * Returns the recorded call at the same position. With a changed agent (a candidate), returns a recorded call with the
 * same input at any position.
 */
function recordedCallLike({ ids, isFree, recording, used }: World, call: ToolCall): Recorded<ToolCall> | undefined {
  const run = ids.recordedOf(call.runId)
  const isHere = (one: Recorded<ToolCall>) =>
    one.runId === run && one.stepIndex === call.stepIndex && one.modelCallId === call.modelCallId
  const isLike = (one: Recorded<ToolCall>) =>
    one.agentId === call.agentId && one.toolName === call.toolName && ids.areSame(one.input, call.input)
  const answered = recording.calls.filter((one) => isOutside(one) && one.output !== null && !used.has(one.id))
  return isFree ? answered.find(isLike) : answered.find(isHere)
}

function answerOf({ status }: Recorded<ToolCall>, output: Json): RecordedAnswer {
  if (status !== 'FAILED') return { type: 'output', output }
  const error = ((output as JsonObject)['error'] ?? {}) as { code?: string; message?: string; details?: Json }
  const { code = 'FAILED', message = '', details } = error
  return { type: 'failure', code, message, ...(details === undefined ? {} : { details }) }
}

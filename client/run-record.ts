import type { LiveRunEventsSubscription, LiveRunStateFragment, LiveToolCallFragment } from './generated/graphql.ts'

export type Run = LiveRunStateFragment
export type ToolCall = LiveToolCallFragment
export type RunEvent = LiveRunEventsSubscription['runEvents']
type Usage = Run['usage']

/** One generation of the model, during and after its stream. */
export interface RunStep {
  /** 0-based. */
  index: number
  /** The agent's internal text and reasoning, which only admins and the service that triggered the run receive. */
  text: string
  reasoning: string
  /** The streamed inputs of the step's calls, as JSON text that may be incomplete. */
  inputs: readonly { toolCallId: string; toolName: string; json: string }[]
  calls: readonly ToolCall[]
  /** The usage of the step; null until the step has finished. */
  usage: Usage | null
}

/** The state of a run. Events must be applied in order; a repeated event changes nothing. */
export interface RunRecord {
  readonly run: Run | null
  readonly steps: readonly RunStep[]
  /** Calls that wait for an answer. */
  readonly waiting: readonly ToolCall[]
  /** The spaces that the run entered, in order. */
  readonly spaces: readonly { id: string; name: string | null }[]
}

export const EMPTY_RECORD: RunRecord = { run: null, steps: [], waiting: [], spaces: [] }

/** Returns the record with an event applied. */
export function withRunEvent(record: RunRecord, event: RunEvent): RunRecord {
  switch (event.__typename) {
    case 'RunSnapshot':
      return fromSnapshot(event)
    case 'RunStarted':
    case 'RunCompleted':
    case 'RunFailed':
    case 'RunCanceled':
      return { ...record, run: event.run, waiting: event.__typename === 'RunStarted' ? record.waiting : [] }
    case 'RunSpaceEntered':
      return { ...record, spaces: [...record.spaces, { id: event.spaceId, name: event.space?.name ?? null }] }
    case 'RunTextDelta':
      return withStep(record, event.step, (step) => ({ ...step, text: step.text + event.delta }))
    case 'RunReasoningDelta':
      return withStep(record, event.step, (step) => ({ ...step, reasoning: step.reasoning + event.delta }))
    case 'RunToolInputDelta':
      return withStep(record, event.step, (step) => ({ ...step, inputs: withInput(step.inputs, event) }))
    case 'RunToolCalled':
    case 'RunToolReturned':
    case 'RunToolCallChanged':
      return withCall(record, event.toolCall)
    case 'RunStepFinished':
      return withStep(record, event.step, (step) => ({ ...step, usage: event.usage }))
    case 'RunWaitingTool':
      return { ...event.toolCalls.reduce(withCall, record), waiting: event.toolCalls }
    default:
      return record
  }
}

/** Returns the record for a snapshot after a gap. The earlier steps are unknown, so all calls belong to one step. */
function fromSnapshot({ run: { toolCalls, ...run } }: Extract<RunEvent, { __typename: 'RunSnapshot' }>): RunRecord {
  const waiting = toolCalls.filter(({ status }) => status === 'WAITING')
  const index = Math.max(0, run.stepCount - 1)
  const steps = toolCalls.length === 0 ? [] : [{ ...emptyStep(index), calls: toolCalls }]
  return { run, steps, waiting, spaces: [] }
}

const emptyStep = (index: number): RunStep => ({ index, text: '', reasoning: '', inputs: [], calls: [], usage: null })

function withStep(record: RunRecord, index: number, change: (step: RunStep) => RunStep): RunRecord {
  const known = record.steps.find((step) => step.index === index)
  const changed = change(known ?? emptyStep(index))
  const steps =
    known === undefined
      ? [...record.steps, changed].sort((one, other) => one.index - other.index)
      : record.steps.map((step) => (step === known ? changed : step))
  return { ...record, steps }
}

/** Adds a call to the step that streamed its input, or else to the last step. */
function withCall(record: RunRecord, call: ToolCall): RunRecord {
  const others = record.waiting.filter(({ id }) => id !== call.id)
  const waiting = call.status === 'WAITING' && others.length < record.waiting.length ? [...others, call] : others
  const holder =
    record.steps.find(({ calls }) => calls.some(({ id }) => id === call.id)) ??
    record.steps.find(({ inputs }) => inputs.some(({ toolCallId }) => toolCallId === call.id)) ??
    record.steps.at(-1) ??
    emptyStep(0)
  return withStep({ ...record, waiting }, holder.index, (step) => ({
    ...step,
    calls: step.calls.some(({ id }) => id === call.id)
      ? step.calls.map((one) => (one.id === call.id ? call : one))
      : [...step.calls, call],
  }))
}

function withInput(
  inputs: RunStep['inputs'],
  { toolCallId, toolName, delta }: Extract<RunEvent, { __typename: 'RunToolInputDelta' }>,
): RunStep['inputs'] {
  const known = inputs.find((input) => input.toolCallId === toolCallId)
  if (known === undefined) return [...inputs, { toolCallId, toolName, json: delta }]
  return inputs.map((input) => (input === known ? { ...known, json: known.json + delta } : input))
}

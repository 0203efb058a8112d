import type { AppendOptions } from '../broker/log.ts'
import { type RunLogEvent, runTopic } from '../broker/topics.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * Publishes the events of a run while this process executes it, in the order in which they are emitted. If the log is
 * unavailable, events are lost, but the run does not fail.
 */
export interface RunEvents {
  text(step: number, delta: string): void
  reasoning(step: number, delta: string): void
  toolInput(step: number, toolCallId: string, toolName: string, delta: string): void
  /**
   * Publishes an event that is not a delta, in order. Events that occur within `PARLEY_DELTA_MS` are sent in one batch.
   */
  emit(event: RunLogEvent): void
  /** Sends the buffered events. They precede all later appends to the run's topic. */
  flush(): void
  /** Resolves when all events so far have been appended to the log or dropped. */
  settled(): Promise<void>
}

type DeltaEvent = Extract<RunLogEvent, { delta: string }>

const CONFIDENTIAL = { confidential: true } as const

/** Creates the events of a run. If the run has a confidentiality label, its deltas are marked as confidential. */
export function createRunEvents(
  { log, logger, config, deltas }: Platform,
  { id: runId, isConfidential }: { id: string; isConfidential(): boolean },
): RunEvents {
  const topic = runTopic(runId)
  const templates = new Map<string, (delta: string) => DeltaEvent>()
  const held: RunLogEvent[] = []
  let timer: NodeJS.Timeout | undefined
  let pending: Promise<unknown> = Promise.resolve()

  /** Sends all buffered events in one batch. */
  function send(): void {
    clearTimeout(timer)
    timer = undefined
    for (const event of held.splice(0)) {
      const appended = log.append(topic, event, appending(runId, event)).catch((error) => {
        logger.warn({ runId, event: event.type, error: messageOf(error) }, 'could not append a run event; dropping it')
      })
      pending = Promise.all([pending, appended])
    }
  }

  let isHolding = false
  const joiner = deltas.joiner({ intervalMs: config.deltaMs, place: topic }, (key, delta) => {
    const template = templates.get(key)
    if (template !== undefined) held.push({ ...template(delta), ...(isConfidential() ? CONFIDENTIAL : {}) })
    if (!isHolding) send()
  })

  function push(key: string, delta: string, template: (delta: string) => DeltaEvent): void {
    if (!templates.has(key)) templates.set(key, template)
    joiner.push(key, delta)
  }

  function hold(event: RunLogEvent): void {
    isHolding = true
    joiner.flush()
    isHolding = false
    held.push(event)
    if (config.deltaMs === 0) send()
    else timer ??= setTimeout(send, config.deltaMs)
  }

  function flush(): void {
    joiner.flush()
    send()
  }

  return {
    text: (step, delta) => push(`t${step}`, delta, (joined) => ({ type: 'RunTextDelta', step, delta: joined })),
    reasoning: (step, delta) =>
      push(`r${step}`, delta, (joined) => ({ type: 'RunReasoningDelta', step, delta: joined })),
    toolInput: (step, toolCallId, toolName, delta) =>
      push(toolCallId, delta, (joined) => ({ type: 'RunToolInputDelta', step, toolCallId, toolName, delta: joined })),
    emit: hold,
    flush,
    async settled() {
      flush()
      await pending
    },
  }
}

/**
 * Returns the options for appending a run event. No event is appended after the end of the run. Each call, result and
 * step event is appended only once, although a previous, next or suspended worker may also append it.
 */
export function appending(runId: string, event: RunLogEvent): AppendOptions {
  const unlessSealed = runTopic(runId)
  switch (event.type) {
    case 'RunToolCalled':
    case 'RunToolReturned':
      return { unlessSealed, once: `${event.type} ${event.toolCallId}` }
    case 'RunStepFinished':
      return { unlessSealed, once: `${event.type} ${event.step}` }
    default:
      return { unlessSealed }
  }
}

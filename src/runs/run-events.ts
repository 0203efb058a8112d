import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { AppendOptions } from '../realtime/event-log.ts'
import { type RunLogEvent, runTopic } from '../realtime/topics.ts'

/** The events of a run while this process executes it, in the order of the calls. A log that is away costs events, never the run. */
export interface RunEvents {
  text(step: number, delta: string): void
  reasoning(step: number, delta: string): void
  toolInput(step: number, toolCallId: string, toolName: string, delta: string): void
  /** Anything else, after what came before it: within `PARLEY_DELTA_MS`, with what else has come by then. */
  emit(event: RunLogEvent): void
  /** Sends what is held. Whatever is appended to the run's topic from now on comes after it. */
  flush(): void
  /** Resolves when everything so far is in the log, or given up. */
  settled(): Promise<void>
}

type DeltaEvent = Extract<RunLogEvent, { delta: string }>

const CONFIDENTIAL = { confidential: true } as const

/** The deltas of a run that knows something of a confidential space say so. */
export function createRunEvents(
  { log, logger, config, deltas }: Platform,
  run: { id: string; label: readonly string[] },
): RunEvents {
  const { id: runId } = run
  const topic = runTopic(runId)
  const templates = new Map<string, (delta: string) => DeltaEvent>()
  const held: RunLogEvent[] = []
  let timer: NodeJS.Timeout | undefined
  let pending: Promise<unknown> = Promise.resolve()

  /** All that is held goes out in one batch. */
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
    if (template !== undefined) held.push({ ...template(delta), ...(run.label.length > 0 ? CONFIDENTIAL : {}) })
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
 * How an event of a run is appended: none after its end; and that a call was made, that it has a result, and that a step is over, once
 * each, whoever tells it: who journaled it, who goes on after that one's death, or one that slept meanwhile.
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

import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { type RunLogEvent, runTopic } from '../realtime/topics.ts'

/** The events of a run while this process executes it, in the order of the calls. A log that is away costs events, never the run. */
export interface RunEvents {
  text(step: number, delta: string): void
  reasoning(step: number, delta: string): void
  toolInput(step: number, toolCallId: string, toolName: string, delta: string): void
  /** Anything else: what is held of deltas goes first. */
  emit(event: RunLogEvent): void
  /** Resolves when everything so far is in the log, or given up. */
  settled(): Promise<void>
}

export function createRunEvents({ log, logger, config, deltas }: Platform, runId: string): RunEvents {
  const topic = runTopic(runId)
  const templates = new Map<string, (delta: string) => RunLogEvent>()
  let pending: Promise<unknown> = Promise.resolve()

  function append(event: RunLogEvent): void {
    const appended = log.append(topic, event, { guard: topic }).catch((error) => {
      logger.warn({ runId, event: event.type, error: messageOf(error) }, 'an event of a run was lost')
    })
    pending = Promise.all([pending, appended])
  }

  const joiner = deltas.joiner({ intervalMs: config.deltaMs, place: topic }, (key, delta) => {
    const template = templates.get(key)
    if (template !== undefined) append(template(delta))
  })

  function push(key: string, delta: string, template: (delta: string) => RunLogEvent): void {
    if (!templates.has(key)) templates.set(key, template)
    joiner.push(key, delta)
  }

  return {
    text: (step, delta) => push(`t${step}`, delta, (joined) => ({ type: 'RunTextDelta', step, delta: joined })),
    reasoning: (step, delta) =>
      push(`r${step}`, delta, (joined) => ({ type: 'RunReasoningDelta', step, delta: joined })),
    toolInput: (step, toolCallId, toolName, delta) =>
      push(toolCallId, delta, (joined) => ({ type: 'RunToolInputDelta', step, toolCallId, toolName, delta: joined })),
    emit(event) {
      joiner.flush()
      append(event)
    },
    async settled() {
      joiner.flush()
      await pending
    },
  }
}

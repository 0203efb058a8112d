import { messageOf } from '../lib/errors.ts'
import { usdOf } from '../lib/model-cost.ts'
import type { Platform } from '../platform/platform.ts'
import { decodeCursor, encodeCursor } from '../realtime/cursor.ts'
import { type RunLogEvent, runTopic } from '../realtime/topics.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'

/** What a run's log says of its journal. */
export interface Told {
  /** Calls of which it was told that they were made, and that they have a result. */
  made: Set<string>
  settled: Set<string>
  /** Indexes of the steps of which it was told that they are over. */
  finished: Set<number>
}

const PAGE = 1000

/**
 * Reads the log of a run that goes on: who had it in hand, or settled a call of it, may have died after the journal knew that, and
 * before it was told. Null: the log cannot say. One that does not begin with the run is begun by a replay of the journal.
 */
export async function readTold({ log, logger }: Pick<Platform, 'log' | 'logger'>, runId: string): Promise<Told | null> {
  const topic = runTopic(runId)
  const told: Told = { made: new Set(), settled: new Set(), finished: new Set() }
  try {
    const [head = ''] = await log.heads([topic])
    const start = encodeCursor({ ...decodeCursor(head), n: 0 })
    for (let after = start; ; ) {
      const page = await log.read(topic, after, PAGE)
      if (page.type === 'gap') return null
      if (after === start && page.entries[0]?.event.type !== 'RunStarted') return null
      for (const { event } of page.entries) note(told, event as RunLogEvent)
      const last = page.entries.at(-1)
      if (last === undefined || page.entries.length < PAGE) return told
      after = last.cursor
    }
  } catch (error) {
    logger.warn({ runId, error: messageOf(error) }, 'what was told of a run could not be read')
    return null
  }
}

function note({ made, settled, finished }: Told, event: RunLogEvent): void {
  if (event.type === 'RunToolCalled') made.add(event.toolCallId)
  if (event.type === 'RunToolReturned') settled.add(event.toolCallId)
  if (event.type === 'RunStepFinished') finished.add(event.step)
}

/**
 * Tells what the journal has and the log has not; that the last step is over is left to who goes on with it.
 * @returns of how many steps it is told that they are over
 */
export function retell(events: Pick<RunEvents, 'emit'>, steps: JournaledStep[], told: Told | null): number {
  const last = steps.at(-1)
  if (told !== null) for (const step of steps) retellStep(events, step, told, step === last)
  if (last === undefined) return 0
  const isToldOver = told === null ? isOver(last) : told.finished.has(last.step.index)
  return isToldOver ? steps.length : steps.length - 1
}

function retellStep(events: Pick<RunEvents, 'emit'>, journaled: JournaledStep, told: Told, isLast: boolean): void {
  for (const { id, settledAt } of journaled.calls) {
    if (!told.made.has(id)) events.emit({ type: 'RunToolCalled', toolCallId: id })
    if (settledAt !== null && !told.settled.has(id)) events.emit({ type: 'RunToolReturned', toolCallId: id })
  }
  if (!isLast && !told.finished.has(journaled.step.index)) events.emit(stepFinished(journaled))
}

const isOver = ({ calls }: JournaledStep) => calls.every(({ settledAt }) => settledAt !== null)

export function stepFinished({ step }: JournaledStep): RunLogEvent {
  const { index, inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated, costNanos } = step
  const tokens = { inputTokens, cachedInputTokens, outputTokens, totalTokens: inputTokens + outputTokens }
  return { type: 'RunStepFinished', step: index, usage: { estimated, ...tokens, costUsd: usdOf(costNanos) } }
}

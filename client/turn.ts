import type { Connection } from './connection.ts'
import { type LiveRun, liveRun } from './live-run.ts'
import type { LiveSpace } from './live-space.ts'
import { isWhole, type Message } from './space-events.ts'

const IT_FAILED = 'It failed.'

/** What a message set off, as it goes: the messages that answer it, in the order of the space, until all has come to rest. */
export interface TurnListener {
  /** After each change: the answers as they are now. */
  onAnswers(answers: readonly Message[]): void
  /** All has come to rest, or can be followed no further. `failures` are the words of whom it failed for. */
  onEnd(answers: readonly Message[], failures: readonly string[]): void
}

/**
 * Follows what a message sets off: the runs of its outcomes, the messages that they post, whom those wake, and so on. An outcome
 * INBOX waits for the mind to take it. Gives the way to stop.
 */
export function followTurn(
  connection: Connection,
  space: LiveSpace,
  trigger: Message,
  { onAnswers, onEnd }: TurnListener,
): () => void {
  const runs = new Map<string, LiveRun>()
  const stops: (() => void)[] = []
  let isOver = false

  function look(): void {
    if (isOver) return
    const all = messagesOfTurn(space.getState().messages, trigger)
    const answers = all.slice(1)
    for (const id of all.flatMap(runIdsOf)) {
      if (runs.has(id)) continue
      const run = liveRun(connection, { runId: id })
      runs.set(id, run)
      stops.push(run.subscribe(look))
    }
    onAnswers(answers)
    const { status, error } = space.getState()
    if (status !== 'ended' && !(all.every(isSettled) && [...runs.values()].every(isOverOf))) return
    const failures = all.flatMap(({ outcomes }) => outcomes).flatMap((outcome) => failuresOf(outcome, runs))
    end()
    onEnd(answers, error === null ? failures : [...failures, error.message])
  }

  function end(): void {
    isOver = true
    for (const stop of stops) stop()
  }

  stops.push(space.subscribe(look))
  queueMicrotask(look)
  return end
}

/** The message that a turn began with, as it is now, and what answers it so far. */
export function messagesOfTurn(messages: readonly Message[], trigger: Message): Message[] {
  const known = messages.find(({ id }) => id === trigger.id) ?? trigger
  const found = [known]
  const runIds = new Set(runIdsOf(known))
  for (const message of messages) {
    if (message.seq <= known.seq || message.run === null || !runIds.has(message.run.id)) continue
    found.push(message)
    for (const id of runIdsOf(message)) runIds.add(id)
  }
  return found
}

/** The run's end may be heard before its outcome says what became of it. */
function failuresOf({ kind, error, run }: Message['outcomes'][number], runs: ReadonlyMap<string, LiveRun>): string[] {
  if (kind === 'FAILED') return [error ?? IT_FAILED]
  const known = kind === 'RUN' && run !== null ? runs.get(run.id)?.getState().run : null
  return known?.status === 'FAILED' ? [known.error?.split('\n', 1)[0] ?? IT_FAILED] : []
}

const runIdsOf = ({ outcomes }: Message) =>
  outcomes.flatMap(({ kind, run }) => (run !== null && kind !== 'ANSWERED' ? [run.id] : []))

const isSettled = (message: Message) => isWhole(message) && message.outcomes.every(({ kind }) => kind !== 'INBOX')

const isOverOf = (run: LiveRun) => run.getState().status === 'ended'

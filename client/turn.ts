import type { Connection } from './connection.ts'
import { type LiveRun, liveRun } from './live-run.ts'
import type { LiveSpace } from './live-space.ts'
import { isWhole, type Message } from './space-events.ts'

const IT_FAILED = 'The run failed.'

/**
 * Receives a turn: the messages that answer a message, in the order of the space, until all runs of the turn have
 * ended.
 */
export interface TurnListener {
  /** Called after each change with the current answers. */
  onAnswers(answers: readonly Message[]): void
  /**
   * Called when all runs have ended, or can no longer be followed. `failures` are the errors of the runs that
   * failed.
   */
  onEnd(answers: readonly Message[], failures: readonly string[]): void
}

/**
 * Follows the turn of a message: the runs that the message starts, the messages that these runs post, the runs that those
 * messages start, and so on. For the outcome INBOX, it waits until the agent's think cycle claims the event. Returns a function
 * that stops following.
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

/** Returns the current version of the turn's first message, and the answers received so far. */
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

/** Returns the errors of an outcome. The end of a run can arrive before the outcome that reports the result. */
function failuresOf({ kind, error, run }: Message['outcomes'][number], runs: ReadonlyMap<string, LiveRun>): string[] {
  if (kind === 'FAILED') return [error ?? IT_FAILED]
  const known = kind === 'RUN' && run !== null ? runs.get(run.id)?.getState().run : null
  return known?.status === 'FAILED' ? [known.error?.split('\n', 1)[0] ?? IT_FAILED] : []
}

const runIdsOf = ({ outcomes }: Message) =>
  outcomes.flatMap(({ kind, run }) => (run !== null && kind !== 'ANSWERED' ? [run.id] : []))

const isSettled = (message: Message) => isWhole(message) && message.outcomes.every(({ kind }) => kind !== 'INBOX')

const isOverOf = (run: LiveRun) => run.getState().status === 'ended'

import type { Activity } from '../activity.ts'
import type { Caller, Exchange } from '../exchange.ts'
import { type Connection, MESSAGE, nodesOf, type PendingCall, type ShownMessage } from '../operations.ts'
import { patient } from '../patient.ts'
import { failureOf, followTurn, isCanceled, readTurn, type TurnState, type Usage } from '../turn.ts'
import { pathOfCall, wordsOf } from '../waiting-calls.ts'
import { type Item, Transcript } from './transcript.ts'

/** A turn of a conversation: a human's message, and the agents' messages that result from it. */
export interface Turn {
  spaceId: string
  messageId: string
}

/** The state of a turn as clients see it. */
export interface TurnView {
  status: 'in_progress' | 'completed' | 'failed' | 'cancelled'
  items: Item[]
  /** Texts that describe the calls that wait for people. */
  words: Item[]
  error: { message: string; code: string } | null
  usage: Usage | null
  agentId: string | null
  completedAt: number | null
}

const ANSWERS = `query DoorAnswers($spaceId: ID!, $after: String!) {
  space(id: $spaceId) {
    streamCursor
    messages(first: 20, after: $after) { pageInfo { hasNextPage endCursor } edges { node { ...DoorMessage } } }
  }
}
${MESSAGE}`

interface Answers {
  space: {
    streamCursor: string
    messages: Connection<ShownMessage> & { pageInfo: { hasNextPage: boolean; endCursor: string | null } }
  } | null
}

/**
 * The maximum number of pages of messages that are read for a turn. More would be needed only if others post at the
 * same time.
 */
const MOST_PAGES = 10

/** Reads the messages after the one that began the turn. `cursor` is null if the space no longer exists. */
async function readAnswers(caller: Caller, { spaceId, messageId }: Turn) {
  const messages: ShownMessage[] = []
  let cursor: string | null = null
  let after = messageId
  for (let page = 0; page < MOST_PAGES; page++) {
    const { space }: Answers = await caller.ask<Answers>(ANSWERS, { spaceId, after })
    if (space === null) break
    // The cursor of the first page is used, because every message before this cursor is on this page or a later one.
    cursor ??= space.streamCursor
    messages.push(...nodesOf(space.messages))
    const { hasNextPage, endCursor } = space.messages.pageInfo
    if (!hasNextPage || endCursor === null) break
    after = endCursor
  }
  return { messages, cursor }
}

/** Returns the current state of a turn. @throws DoorError */
export async function viewTurn(exchange: Exchange, caller: Caller, turn: Turn): Promise<TurnView> {
  const state = await readTurn(caller, { spaceId: turn.spaceId, rootId: turn.messageId })
  const transcript = new Transcript(turn.messageId)
  transcript.load((await readAnswers(caller, turn)).messages)
  return viewOf(exchange, transcript, state)
}

/** Yields the state of a turn after each change, and finally its last state. @throws DoorError */
export async function* watchTurn(
  exchange: Exchange,
  impatient: Caller,
  turn: Turn,
  { activity, onIdle }: { activity: Activity; onIdle: () => void },
): AsyncGenerator<TurnView, void> {
  const { spaceId, messageId } = turn
  const caller = patient(impatient, onIdle)
  const transcript = new Transcript(messageId)
  const { messages, cursor } = await readAnswers(caller, turn)
  if (cursor === null) return
  transcript.load(messages)
  yield viewOf(exchange, transcript, null)
  const scope = { spaceId, rootId: messageId, after: cursor, waitsForPeople: false, activity, onIdle }
  for await (const next of followTurn(caller, scope)) {
    if (next.type === 'end') {
      yield viewOf(exchange, transcript, next.state)
      return
    }
    if (!transcript.apply(next.event)) {
      const now = await readAnswers(caller, turn)
      transcript.clear()
      transcript.load(now.messages)
    }
    yield viewOf(exchange, transcript, null)
  }
}

/** Returns the state of a turn as clients see it. `state` is null while agents work. */
function viewOf(exchange: Exchange, transcript: Transcript, state: TurnState | null): TurnView {
  const error = state === null || state.isBusy || state.waiting.length > 0 ? null : failureOf(state)
  const status = statusOf(state, error !== null)
  const ended = (state?.outcomes ?? []).flatMap(({ run }) =>
    run?.finishedAt == null ? [] : Date.parse(run.finishedAt),
  )
  return {
    status,
    items: transcript.items(status !== 'in_progress'),
    words: state === null || state.isBusy ? [] : wordsAbout(exchange, state.waiting),
    error,
    usage: state?.usage ?? null,
    agentId: state?.outcomes.find(({ kind }) => kind !== 'NOT_ROUTED')?.agent.id ?? null,
    completedAt: ended.length === 0 ? null : Math.max(...ended),
  }
}

function statusOf(state: TurnState | null, hasFailed: boolean): TurnView['status'] {
  if (state === null || state.isBusy) return 'in_progress'
  if (hasFailed) return 'failed'
  return state.waiting.length === 0 && isCanceled(state) ? 'cancelled' : 'completed'
}

/** The maximum number of waiting calls that are described. Further calls are only counted. */
const MOST_WORDS = 3
const LONGEST_WORDS = 2500

function wordsAbout(exchange: Exchange, waiting: readonly PendingCall[]): Item[] {
  const words = waiting.slice(0, MOST_WORDS).map((call) => {
    const text = `${wordsOf(call).slice(0, LONGEST_WORDS).toWellFormed()} ${exchange.linkTo(pathOfCall(call))}`
    return { id: `msg_${call.id}`, text, isComplete: true }
  })
  const others = waiting.length - words.length
  if (others === 0) return words
  return [
    ...words,
    { id: 'msg_more', text: `${others} more calls are waiting. ${exchange.linkTo('/waiting')}`, isComplete: true },
  ]
}

import { jsonBytes } from '../../lib/json.ts'
import { isEndedRun } from '../../rules/statuses.ts'
import { isAnswerable, type TaskStatus, taskStatusOf } from '../../rules/task-state.ts'
import { type Caller, DoorError } from '../exchange.ts'
import {
  CALLS,
  MESSAGE_TASK,
  MESSAGES,
  type Message,
  type Named,
  type Page,
  PENDING_IDS,
  type PendingCall,
  REPLIES,
  RUN_TASK,
  type RunState,
  type RunStatus,
} from './documents.ts'

/** The work of one agent for a task. */
export interface TaskOutcome {
  agent: Named
  /** The outcome of the message for the agent; RUN for a task that is a run. */
  kind: string
  runId: string | null
  runStatus: RunStatus | null
  error: string | null
  /** The closing text of the run, for those who may read it. */
  summary: string | null
}

/** The state of a task for one viewer, read from the runs that it represents. */
export interface Task {
  id: string
  status: TaskStatus
  createdAt: string
  lastUpdatedAt: string
  outcomes: TaskOutcome[]
  /** Calls of its runs that the viewer may decide on, or whose result the viewer may submit. */
  pending: PendingCall[]
  /** The number of calls of its runs that wait for anybody. */
  waiting: number
  /** The runs that have not ended. */
  activeRunIds: string[]
  /** The message that the agents read, by which their replies are found; null if the viewer sees none. */
  source: { messageId: string; spaceId: string } | null
}

/** The result of a task, so far. */
export interface TaskOutput {
  outcomes: TaskOutcome[]
  replies: Message[]
  /** The position in the space up to which the replies are complete. Null if some are missing. */
  cursor: string | null
  /** Whether replies are missing: there are too many messages, or too many bytes. */
  isCut: boolean
}

interface RepliesData {
  space: { streamCursor: string; messages: Page<Message> } | null
}

interface ReadOutcome {
  kind: string
  error: string | null
  readAt: string | null
  agent: Named
  run: RunState | null
}

/** The rows that a task was read from. */
interface Read {
  createdAt: string
  outcomes: ReadOutcome[]
  source: Task['source']
}

export interface Tasks {
  /** Returns null if there is no such task for the viewer. @throws DoorError */
  read(caller: Caller, id: string): Promise<Task | null>
  /** Returns what the agents posted so far. @throws DoorError */
  output(caller: Caller, task: Task): Promise<TaskOutput>
  /** Returns the messages that the viewer may read. @throws DoorError */
  messages(caller: Caller, ids: readonly string[]): Promise<Message[]>
}

/** Returns the ids of the calls that the viewer may answer, the oldest first. @throws DoorError */
export async function readPendingIds(caller: Caller): Promise<string[]> {
  const { viewer } = await caller.ask<{ viewer: { pendingToolCalls: { id: string }[] } }>(PENDING_IDS, {})
  return viewer.pendingToolCalls.map(({ id }) => id)
}

/** Reads calls, without those that are too long for a response. @throws DoorError */
export const readCalls = (caller: Caller, ids: readonly string[]): Promise<PendingCall[]> =>
  readNodes<PendingCall>(caller, CALLS, ids)

/** Reads objects by id in as few queries as their sizes allow, without those that are too long for a response. @throws DoorError */
async function readNodes<T extends { id: string }>(
  caller: Caller,
  query: string,
  ids: readonly string[],
): Promise<T[]> {
  try {
    const { nodes } = await caller.ask<{ nodes: (Partial<T> | null)[] }>(query, { ids })
    // An object of another type has no fields.
    return nodes.filter((node): node is T => node?.id !== undefined)
  } catch (error) {
    const isTooLong = error instanceof DoorError && error.code === 'BAD_INPUT'
    if (!isTooLong) throw error
    if (ids.length === 1) return []
    const half = Math.ceil(ids.length / 2)
    return [
      ...(await readNodes<T>(caller, query, ids.slice(0, half))),
      ...(await readNodes<T>(caller, query, ids.slice(half))),
    ]
  }
}

/** A task is a run, or a message and the runs that it started. */
const TASK_ID = /^(msg|run)_[0-9a-f]{32}$/
/** How many waiting calls of a task are read. */
const MOST_CALLS = 50
/** The size of a full `Viewer.pendingToolCalls`. */
const MOST_LISTED = 100
const REPLIES_A_PAGE = 50
/** How many messages after the source are searched for replies. */
const MOST_MESSAGES = 1000
/** A reply is posted before its run ends; clocks of servers may differ by less than this. */
const CLOCK_SLACK_MS = 60_000

/** Reads tasks. Tasks have no rows of their own: their ids are those of runs and messages. */
export function createTasks(maxResponseBytes: number): Tasks {
  // Results contain replies twice: as text, and as data.
  const mostReplyBytes = maxResponseBytes / 2
  const mostSummaryBytes = maxResponseBytes / 8

  async function readMessage(caller: Caller, id: string): Promise<Read | null> {
    const { message } = await caller.ask<{
      message: { id: string; createdAt: string; space: { id: string }; outcomes: ReadOutcome[] } | null
    }>(MESSAGE_TASK, { id })
    if (message === null) return null
    const { createdAt, space, outcomes } = message
    return { createdAt, outcomes, source: { messageId: id, spaceId: space.id } }
  }

  async function readRun(caller: Caller, id: string): Promise<Read | null> {
    const { run } = await caller.ask<{
      run: (RunState & { triggerMessage: { id: string } | null; triggerSpace: { id: string } | null }) | null
    }>(RUN_TASK, { id })
    if (run === null) return null
    const { triggerMessage, triggerSpace, queuedAt, agent, error } = run
    const source = triggerMessage && triggerSpace && { messageId: triggerMessage.id, spaceId: triggerSpace.id }
    return { createdAt: queuedAt, outcomes: [{ kind: 'RUN', error, readAt: null, agent, run }], source }
  }

  /** Returns the calls that the viewer may answer. */
  async function pendingOf(caller: Caller, ids: readonly string[]): Promise<PendingCall[]> {
    const listed = new Set(await readPendingIds(caller))
    const nodes = await readCalls(caller, ids.slice(0, MOST_CALLS))
    // The server lists the oldest only: a newer call may be answerable although the list lacks it.
    const mayAnswer = (call: PendingCall) =>
      isAnswerableCall(call) && (listed.size >= MOST_LISTED || listed.has(call.id))
    return nodes.filter(mayAnswer)
  }

  /** Yields the messages after the source, until there are no more, or until `endsAt`; MOST_MESSAGES at most. */
  async function* pagesAfter(
    caller: Caller,
    { spaceId, messageId }: NonNullable<Task['source']>,
    endsAt: number,
  ): AsyncGenerator<{ messages: Message[]; streamCursor: string | null; isLast: boolean }> {
    let after = messageId
    for (let count = 0; count < MOST_MESSAGES; ) {
      const { space }: RepliesData = await caller.ask(REPLIES, { spaceId, after, first: REPLIES_A_PAGE })
      if (space === null) return yield { messages: [], streamCursor: null, isLast: true }
      const messages = space.messages.edges.map(({ node }) => node)
      count += messages.length
      const { hasNextPage, endCursor } = space.messages.pageInfo
      const isPast = messages.some(({ createdAt }) => Date.parse(createdAt) > endsAt)
      const isLast = !hasNextPage || endCursor === null || isPast
      yield { messages, streamCursor: space.streamCursor, isLast }
      if (isLast) return
      after = endCursor
    }
  }

  return {
    async read(caller, id) {
      if (!TASK_ID.test(id)) return null
      const read = await (id.startsWith('msg_') ? readMessage(caller, id) : readRun(caller, id))
      if (read === null) return null
      const runs = read.outcomes.flatMap(({ run }) => run ?? [])
      const waiting = runs.flatMap(({ toolCalls }) => toolCalls).filter(({ waitsFor }) => waitsFor !== null)
      const answerable = waiting.filter(({ waitsFor }) => waitsFor !== 'MESSAGE').map((call) => call.id)
      const pending = answerable.length === 0 ? [] : await pendingOf(caller, answerable)
      return {
        id,
        status: taskStatusOf(read.outcomes.map(partOf), pending.length > 0),
        createdAt: read.createdAt,
        lastUpdatedAt: lastChangeOf(read, runs),
        outcomes: withSummaries(read.outcomes.map(outcomeOf), mostSummaryBytes),
        pending,
        waiting: waiting.length,
        activeRunIds: runs.filter(({ status }) => !isEndedRun(status)).map((run) => run.id),
        source: read.source,
      }
    },

    async output(caller, task) {
      const { outcomes, source } = task
      const runIds = new Set(outcomes.flatMap(({ runId }) => runId ?? []))
      const output: TaskOutput = { outcomes, replies: [], cursor: null, isCut: false }
      if (source === null || runIds.size === 0) return output
      let cursor: string | null = null
      let bytes = 0
      for await (const { messages, streamCursor, isLast } of pagesAfter(caller, source, lastReplyOf(task))) {
        // The position of the first page: changes since then are delivered after it.
        cursor ??= streamCursor
        for (const reply of messages) {
          if (reply.run === null || !runIds.has(reply.run.id)) continue
          bytes += Buffer.byteLength(JSON.stringify(reply))
          if (bytes > mostReplyBytes) return { ...output, isCut: true }
          output.replies.push(reply)
        }
        if (isLast) return { ...output, cursor }
      }
      return { ...output, isCut: true }
    },

    messages: (caller, ids) => readNodes<Message>(caller, MESSAGES, ids),
  }
}

/** Leaves out the closing texts that exceed the limit of bytes. */
function withSummaries(outcomes: readonly TaskOutcome[], maxBytes: number): TaskOutcome[] {
  let left = maxBytes
  return outcomes.map((outcome) => {
    left -= jsonBytes(outcome.summary)
    return left < 0 ? { ...outcome, summary: null } : outcome
  })
}

/** Returns the time after which no more replies are posted. */
const lastReplyOf = ({ activeRunIds, lastUpdatedAt }: Task): number =>
  activeRunIds.length > 0 ? Number.POSITIVE_INFINITY : Date.parse(lastUpdatedAt) + CLOCK_SLACK_MS

/** Whether the viewer can answer the call through the door: a reply in the space is a message. */
export const isAnswerableCall = ({ waitsFor, approval }: PendingCall): boolean =>
  isAnswerable({ waitsFor, mayDecide: approval?.mayDecide === true })

const partOf = ({ kind, readAt, run }: ReadOutcome) => ({
  kind,
  hasRead: readAt !== null,
  runStatus: run?.status ?? null,
})

function lastChangeOf({ createdAt, outcomes }: Read, runs: readonly RunState[]): string {
  const times = [
    createdAt,
    ...outcomes.map(({ readAt }) => readAt),
    ...runs.flatMap(({ queuedAt, startedAt, finishedAt }) => [queuedAt, startedAt, finishedAt]),
  ]
  return times.reduce<string>((last, time) => (time !== null && time > last ? time : last), createdAt)
}

function outcomeOf({ agent, kind, error, run }: ReadOutcome): TaskOutcome {
  return {
    agent,
    kind,
    runId: run?.id ?? null,
    runStatus: run?.status ?? null,
    error: run?.error ?? error,
    summary: run?.summary ?? null,
  }
}

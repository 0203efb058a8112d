import { jsonBytes } from '../../lib/json.ts'
import { isEndedRun } from '../../rules/statuses.ts'
import { isAnswerable, type TaskStatus, taskStatusOf } from '../../rules/task-state.ts'
import { firstInBytes } from '../bytes.ts'
import { type Caller, DoorError } from '../exchange.ts'
import { nodesOf } from '../operations.ts'
import {
  CALLS,
  CURSORS,
  MESSAGES,
  type Message,
  type Named,
  type Page,
  PENDING_IDS,
  type PendingCall,
  REPLIES,
  type RunState,
  type RunStatus,
  TASKS,
} from './documents.ts'

/** The work of one agent on a task. */
export interface TaskOutcome {
  agent: Named
  /** The outcome of the message for the agent; RUN if the task is a single run. */
  kind: string
  runId: string | null
  runStatus: RunStatus | null
  error: string | null
  /** The closing text of the run, if the viewer may read it. */
  summary: string | null
}

/** The state of a task for one viewer, derived from the runs of the task. */
export interface Task {
  id: string
  status: TaskStatus
  createdAt: string
  lastUpdatedAt: string
  outcomes: TaskOutcome[]
  /** The calls of the task's runs that the viewer may decide on, or whose result the viewer may submit. */
  pending: PendingCall[]
  /** The number of calls of the task's runs that wait for any person or service. */
  waiting: number
  /** The runs of the task that have not ended. */
  activeRunIds: string[]
  /** The message that the agents reply to. Null if there is none, or if the viewer may not see it. */
  source: { messageId: string; spaceId: string } | null
}

/** The output of a task so far. */
export interface TaskOutput {
  outcomes: TaskOutcome[]
  replies: Message[]
  /** The cursor in the space up to which the replies are complete; null if some are missing. */
  cursor: string | null
  /** Whether replies are missing because there are too many of them or they are too long. */
  isCut: boolean
}

interface ReadOutcome {
  kind: string
  error: string | null
  readAt: string | null
  agent: Named
  run: RunState | null
}

/** A message and the runs that it has started. */
interface ReadMessage {
  __typename: 'Message'
  id: string
  createdAt: string
  space: { id: string }
  outcomes: ReadOutcome[]
}

interface ReadRun extends RunState {
  __typename: 'Run'
  triggerMessage: { id: string } | null
  triggerSpace: { id: string } | null
}

interface Reply extends Message {
  space: { id: string }
}

/** The first page of a run's messages. */
interface Posted {
  id: string
  messages: Page<Reply>
}

/** The rows that a task was read from. */
interface Read {
  id: string
  createdAt: string
  outcomes: ReadOutcome[]
  source: Task['source']
}

export interface Tasks {
  /** Returns a task; null if it does not exist or the viewer may not see it. @throws DoorError */
  read(caller: Caller, id: string): Promise<Task | null>
  /**
   * Returns the tasks that the viewer may see, by id. The number of GraphQL operations does not depend on the
   * number of tasks.
   * @throws DoorError
   */
  readMany(caller: Caller, ids: readonly string[]): Promise<Map<string, Task>>
  /** Returns the replies so far. @throws DoorError */
  output(caller: Caller, task: Task): Promise<TaskOutput>
  /**
   * For each task, returns the first replies of each run. The number of GraphQL operations does not depend on the
   * number of tasks.
   * @throws DoorError
   */
  outputs(caller: Caller, tasks: readonly Task[], repliesARun: number): Promise<TaskOutput[]>
  /** Returns the messages that the viewer may read. @throws DoorError */
  messages(caller: Caller, ids: readonly string[]): Promise<Message[]>
}

/** Matches the id of a task. A task is a run, or a message with the runs that it started. */
const TASK_ID = /^(msg|run)_[0-9a-f]{32}$/
/** The maximum number of waiting calls that are read at once. */
const MOST_CALLS = 50
/** The maximum length of `Viewer.pendingToolCalls`. */
const MOST_LISTED = 100
const REPLIES_A_PAGE = 50
/** The maximum number of replies that are read per run. */
const MOST_REPLIES = 1000

/** Returns the ids of the calls that the viewer may answer, oldest first. @throws DoorError */
export async function readPendingIds(caller: Caller): Promise<string[]> {
  const { viewer } = await caller.ask<{ viewer: { pendingToolCalls: { id: string }[] } }>(PENDING_IDS, {})
  return viewer.pendingToolCalls.map(({ id }) => id)
}

/** Reads calls. Leaves out those that are too long for a response. @throws DoorError */
export const readCalls = (caller: Caller, ids: readonly string[]): Promise<PendingCall[]> =>
  readNodes<PendingCall>(caller, CALLS, ids)

/**
 * Reads objects by id, in as few queries as their sizes allow. Leaves out those that are too long for a response.
 * @throws DoorError
 */
async function readNodes<T extends { id: string }>(
  caller: Caller,
  query: string,
  ids: readonly string[],
  variables: object = {},
): Promise<T[]> {
  if (ids.length === 0) return []
  try {
    const { nodes } = await caller.ask<{ nodes: (Partial<T> | null)[] }>(query, { ...variables, ids })
    // `id` is missing if the object has another type than expected.
    return nodes.filter((node): node is T => node?.id !== undefined)
  } catch (error) {
    const isTooLong = error instanceof DoorError && error.code === 'BAD_INPUT'
    if (!isTooLong) throw error
    if (ids.length === 1) return []
    const half = Math.ceil(ids.length / 2)
    const first = await readNodes<T>(caller, query, ids.slice(0, half), variables)
    return [...first, ...(await readNodes<T>(caller, query, ids.slice(half), variables))]
  }
}

/** Creates the reader of tasks. Tasks are not stored; their ids are those of runs and messages. */
export function createTasks(maxResponseBytes: number): Tasks {
  // Half of the size limit is available, because a result contains the replies twice: as text and as data.
  const mostReplyBytes = maxResponseBytes / 2
  const mostSummaryBytes = maxResponseBytes / 8

  async function readMany(caller: Caller, ids: readonly string[]): Promise<Map<string, Task>> {
    const known = [...new Set(ids)].filter((id) => TASK_ID.test(id))
    const read = (await readNodes<ReadMessage | ReadRun>(caller, TASKS, known)).map(rowsOf)
    const pending = await pendingAmong(caller, read)
    return new Map(read.map((task) => [task.id, taskOf(task, pending, mostSummaryBytes)]))
  }

  /** Builds the output of the task from the first replies of its runs. The cursor was read before the replies. */
  function outputOf(
    { outcomes, source }: Task,
    posted: ReadonlyMap<string, Posted>,
    cursors: ReadonlyMap<string, string>,
  ): TaskOutput {
    const output: TaskOutput = { outcomes, replies: [], cursor: null, isCut: false }
    const runs = outcomes.flatMap(({ runId }) => posted.get(runId ?? '') ?? [])
    if (source === null || runs.length === 0) return output
    const replies = runs
      .flatMap(({ messages }) => nodesOf(messages))
      .filter(({ space }) => space.id === source.spaceId)
      .toSorted((one, other) => one.seq - other.seq)
      .map(({ space: _, ...reply }) => reply)
    output.replies = firstInBytes(replies, mostReplyBytes)
    const isCut = output.replies.length < replies.length || runs.some(({ messages }) => messages.pageInfo.hasNextPage)
    return isCut ? { ...output, isCut } : { ...output, cursor: cursors.get(source.spaceId) ?? null }
  }

  async function outputs(caller: Caller, tasks: readonly Task[], repliesARun: number, toEnd = false) {
    const withReplies = tasks.filter(({ source }) => source !== null)
    const runIds = withReplies.flatMap(({ outcomes }) => outcomes.flatMap(({ runId }) => runId ?? []))
    if (runIds.length === 0) return tasks.map((task) => outputOf(task, new Map(), new Map()))
    const spaceIds = [...new Set(withReplies.flatMap(({ source }) => source?.spaceId ?? []))]
    const cursors = await readNodes<{ id: string; streamCursor: string }>(caller, CURSORS, spaceIds)
    const posted = await readNodes<Posted>(caller, REPLIES, [...new Set(runIds)], { first: repliesARun })
    if (toEnd) for (const run of posted) await readToEnd(caller, run, mostReplyBytes)
    const byRun = new Map(posted.map((run) => [run.id, run]))
    const bySpace = new Map(cursors.map(({ id, streamCursor }) => [id, streamCursor]))
    return tasks.map((task) => outputOf(task, byRun, bySpace))
  }

  return {
    readMany,
    read: async (caller, id) => (await readMany(caller, [id])).get(id) ?? null,
    output: async (caller, task) => (await outputs(caller, [task], REPLIES_A_PAGE, true))[0]!,
    outputs: (caller, tasks, repliesARun) => outputs(caller, tasks, repliesARun),
    messages: (caller, ids) => readNodes<Message>(caller, MESSAGES, ids),
  }
}

/** Reads the remaining replies of a run, up to the limits of a response. */
async function readToEnd(caller: Caller, { id, messages }: Posted, maxBytes: number): Promise<void> {
  while (
    messages.pageInfo.hasNextPage &&
    messages.edges.length < MOST_REPLIES &&
    jsonBytes(messages.edges) < maxBytes
  ) {
    const page = { first: REPLIES_A_PAGE, after: messages.pageInfo.endCursor }
    const [more] = await readNodes<Posted>(caller, REPLIES, [id], page)
    if (more === undefined) return
    messages.edges.push(...more.messages.edges)
    messages.pageInfo = more.messages.pageInfo
  }
}

function rowsOf(read: ReadMessage | ReadRun): Read {
  const { id } = read
  if (read.__typename === 'Message') {
    const { createdAt, space, outcomes } = read
    return { id, createdAt, outcomes, source: { messageId: id, spaceId: space.id } }
  }
  const { triggerMessage, triggerSpace, queuedAt, agent, error } = read
  const source = triggerMessage && triggerSpace && { messageId: triggerMessage.id, spaceId: triggerSpace.id }
  return { id, createdAt: queuedAt, outcomes: [{ kind: 'RUN', error, readAt: null, agent, run: read }], source }
}

const runsOf = ({ outcomes }: Read): RunState[] => outcomes.flatMap(({ run }) => run ?? [])

const waitingIn = (task: Read) =>
  runsOf(task).flatMap(({ toolCalls }) => toolCalls.filter(({ waitsFor }) => waitsFor !== null))

/** The calls that the viewer may answer. */
interface PendingCalls {
  ids: ReadonlySet<string>
  /** The calls that have been read, oldest first. */
  calls: readonly PendingCall[]
}

async function pendingAmong(caller: Caller, tasks: readonly Read[]): Promise<PendingCalls> {
  const waiting = tasks.flatMap(waitingIn).filter(isAnswerableCall)
  if (waiting.length === 0) return { ids: new Set(), calls: [] }
  const listed = await readPendingIds(caller)
  // A full list contains only the oldest calls, so the viewer may be able to answer a newer call that is not in the
  // list.
  const mayAnswer = ({ id }: { id: string }) => listed.length >= MOST_LISTED || listed.includes(id)
  const ids = new Set(waiting.filter(mayAnswer).map(({ id }) => id))
  const calls = ids.size === 0 ? [] : await readCalls(caller, [...ids].slice(0, MOST_CALLS))
  // Calls that were settled in the meantime are left out.
  for (const call of calls) if (!isAnswerableCall(call)) ids.delete(call.id)
  return { ids, calls: calls.filter(isAnswerableCall) }
}

function taskOf(read: Read, pending: PendingCalls, maxSummaryBytes: number): Task {
  const waiting = waitingIn(read)
  const ids = new Set(waiting.map(({ id }) => id))
  return {
    id: read.id,
    status: taskStatusOf(
      read.outcomes.map(partOf),
      waiting.some(({ id }) => pending.ids.has(id)),
    ),
    createdAt: read.createdAt,
    lastUpdatedAt: lastChangeOf(read, runsOf(read)),
    outcomes: withSummaries(read.outcomes.map(outcomeOf), maxSummaryBytes),
    pending: pending.calls.filter(({ id }) => ids.has(id)),
    waiting: waiting.length,
    activeRunIds: runsOf(read)
      .filter(({ status }) => !isEndedRun(status))
      .map((run) => run.id),
    source: read.source,
  }
}

/** Leaves out closing texts once the size limit is reached. */
function withSummaries(outcomes: readonly TaskOutcome[], maxBytes: number): TaskOutcome[] {
  let left = maxBytes
  return outcomes.map((outcome) => {
    left -= jsonBytes(outcome.summary)
    return left < 0 ? { ...outcome, summary: null } : outcome
  })
}

type Answerable = Pick<PendingCall, 'waitsFor'> & { approval: { mayDecide: boolean } | null }

/**
 * Whether the viewer can answer the call through an endpoint. If the call waits for a reply in the space, it is
 * answered with a message instead.
 */
export const isAnswerableCall = ({ waitsFor, approval }: Answerable): boolean =>
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

import { type TaskState, taskStateOf } from '../../rules/task-state.ts'
import { firstInBytes } from '../bytes.ts'
import type { Message } from '../tasks/documents.ts'
import { consoleOnly, inputRequestsOf } from '../tasks/input-requests.ts'
import type { Task, TaskOutput } from '../tasks/tasks.ts'
import { CURSOR_EXTENSION } from './card.ts'

/** Returns the state of a task as A2A defines it. */
export const stateOf = ({ status, outcomes }: Task): TaskState => taskStateOf(status, outcomes)

export const contextOf = ({ id, source }: Task): string => source?.spaceId ?? id

/** The maximum share of a response that the status of a task may take. */
const STATUS_SHARE = 1 / 4

/**
 * Returns the status of a task. Includes the questions to the user or the reasons for a failure, in order, and
 * leaves out those that do not fit into a response.
 */
export function statusOf(task: Task, maxResponseBytes: number): object {
  const state = stateOf(task)
  const parts = partsOf(task, state, maxResponseBytes * STATUS_SHARE)
  const message = {
    messageId: `${task.id}:${state}`,
    contextId: contextOf(task),
    taskId: task.id,
    role: 'ROLE_AGENT',
    parts,
  }
  return { state, timestamp: task.lastUpdatedAt, ...(parts.length === 0 ? {} : { message }) }
}

const HOW_TO_ANSWER =
  'Answer with a message in this task that has a data part { "inputResponses": { "<key>": { "action": "accept", "content": { … } } } }. Take the key from inputRequests.'

function partsOf({ outcomes, pending }: Task, state: TaskState, maxBytes: number): object[] {
  if (state === 'TASK_STATE_INPUT_REQUIRED') {
    // The status contains each question twice: as text and as data.
    const inputRequests = inputRequestsOf(pending, maxBytes / 2)
    const questions: string[] = Object.values(inputRequests).map(({ params }) => params.message)
    if (questions.length > 0) questions.push(HOW_TO_ANSWER)
    const elsewhere = consoleOnly(pending)
    if (elsewhere !== null) questions.push(elsewhere)
    return [{ text: questions.join('\n\n') }, { data: { inputRequests } }]
  }
  if (state === 'TASK_STATE_WORKING' || state === 'TASK_STATE_CANCELED') return []
  const lines = outcomes
    .filter(({ runStatus, kind }) => runStatus !== 'COMPLETED' || kind === 'SKIPPED')
    .map(({ agent, kind, runStatus, error }) => `${agent.name}: ${error ?? runStatus ?? kind}`)
  const summaries = outcomes.flatMap(({ summary }) => summary ?? [])
  if (outcomes.length === 0) lines.push('The message did not wake any agent.')
  return firstInBytes(
    [...summaries, ...lines].map((text) => ({ text })),
    maxBytes,
  )
}

/** Returns an agent's reply as an artifact. `text`: the part of the reply that the artifact contains. */
export const artifactOf = ({ id, sender }: Message, text: string): object => ({
  artifactId: id,
  name: sender.name,
  parts: [{ text }],
})

export const isShown = ({ text }: Message): boolean => text !== ''

/**
 * Returns a complete task. If artifacts are missing, the task has no cursor. `output` is null if the client did not ask
 * for artifacts: the protocol then requires that the field is absent. A `historyLength` of 0 omits the history, but not
 * the artifacts.
 */
export function taskOf(task: Task, output: Omit<TaskOutput, 'outcomes'> | null, maxResponseBytes: number): object {
  const { replies = null, cursor = null, isCut = false } = output ?? {}
  return {
    id: task.id,
    contextId: contextOf(task),
    status: statusOf(task, maxResponseBytes),
    ...(replies === null ? {} : { artifacts: replies.filter(isShown).map((reply) => artifactOf(reply, reply.text)) }),
    ...(isCut ? { metadata: { [CURSOR_EXTENSION]: { isCut } } } : {}),
    ...(cursor === null ? {} : { metadata: { [CURSOR_EXTENSION]: { cursor } } }),
  }
}

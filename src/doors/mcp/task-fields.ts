import { cut } from '../../lib/json.ts'
import { consoleOnly, takeForms } from '../tasks/input-requests.ts'
import type { Task } from '../tasks/tasks.ts'
import type { McpExchange, Result } from './exchange.ts'

const POLL_INTERVAL_MS = 2000
const LONGEST_MESSAGE = 1000

/** Returns the fields that are part of every description of a task. */
export function taskFields(
  { takesForms }: McpExchange,
  { id, status, createdAt, lastUpdatedAt, ...task }: Task,
): Result {
  return {
    taskId: id,
    // The status `input_required` is reported only if the client supports forms and the call's input fits into a form.
    status: status === 'input_required' && !(takesForms && takeForms(task.pending)) ? 'working' : status,
    statusMessage: cut(
      [messageOf({ status, ...task }), consoleOnly(task.pending)].filter((text) => text !== null).join(' '),
      LONGEST_MESSAGE,
    ),
    createdAt,
    lastUpdatedAt,
    ttlMs: null,
    pollIntervalMs: POLL_INTERVAL_MS,
  }
}

function messageOf({ status, outcomes, waiting }: Pick<Task, 'status' | 'outcomes' | 'waiting'>): string {
  const states = outcomes.map(({ agent, runStatus, kind }) => `${agent.name}: ${runStatus ?? kind}`)
  const who = states.length === 0 ? 'The message did not wake any agent' : states.join(', ')
  if (waiting === 0 || status === 'completed' || status === 'cancelled') return `${who}.`
  return `${who}. ${waiting} calls are waiting for an answer: see the tool list_pending.`
}

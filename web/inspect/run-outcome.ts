import { wordsOfName } from '../decide/property-titles.ts'

interface RunOutcome {
  /** The status to show. A completed run has one that says what the run did. */
  state: string
  /** Words to show instead of those of the status; null for the usual ones. */
  words: string | null
}

interface EndedRun {
  status: string
  stopReason: string | null
  toolCalls: readonly { toolName: string; status: string; waitsFor?: string | null }[]
}

const SENDING = ['send_message', 'sendSpaceMessage']

/** Returns whether a call posted a message. */
export const isSending = ({ toolName, status }: EndedRun['toolCalls'][number]) =>
  SENDING.includes(toolName) && status === 'DONE'

/** Returns whether a call waits for people to decide on it. */
export const isAwaitedDecision = ({ status, waitsFor = null }: EndedRun['toolCalls'][number]) =>
  status === 'WAITING' && waitsFor === 'DECISION'

/** Returns what a run did, as far as its calls show it: it answered, said nothing, or used a tool. */
export function outcomeOf({ status, stopReason, toolCalls }: EndedRun): RunOutcome {
  if (status === 'WAITING_TOOL' && toolCalls.some(isAwaitedDecision)) return { state: 'NEEDS_APPROVAL', words: null }
  if (status !== 'COMPLETED') return { state: status, words: null }
  if (stopReason === 'SKIPPED') return { state: 'SAID_NOTHING', words: null }
  if (stopReason === 'HANDED_ON') return { state: 'DELEGATED', words: null }
  if (stopReason === 'ALL_ANSWERED' || toolCalls.some(isSending)) return { state: 'ANSWERED', words: null }
  const used = toolCalls.findLast((call) => call.status === 'DONE')
  return { state: 'COMPLETED', words: used === undefined ? null : wordsOfName(used.toolName).toLowerCase() }
}

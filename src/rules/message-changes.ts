import { WHY_OVER_BUDGET } from '../lib/budget.ts'
import { isUnfinished, type Message, type MessagePart } from './message.ts'
import type { AgentMember, Allowance, Decision, Verdict } from './routing.ts'
import { isFinalMessage } from './statuses.ts'
import { losesTriggers, overBudgetOf, wayToWake } from './wake.ts'

// Changes to a message after it was posted: edits, deletion and reactions.

/** The number of earlier texts of a message that are kept. */
export const MOST_VERSIONS = 20
/** The maximum number of edits of one message. */
export const MOST_EDITS = 1000
/** The maximum number of different emojis on one message. */
export const MOST_EMOJIS = 50

type Changed = Pick<Message, 'status' | 'deletedAt' | 'parts'>

const DELETED = 'The message was deleted.'
const STREAMING = 'The message is still being written: wait until it is complete.'
const WAITS = 'The message is waiting for an answer. It can be changed once somebody has answered or its run has ended.'

/** Returns why the text of a message cannot be changed now; null if an edit is allowed. */
export function faultOfEdit({ status, deletedAt, parts }: Changed): string | null {
  const fault = faultOfDeletion({ status, deletedAt, parts })
  if (fault !== null) return fault
  if (parts.length === 0) return 'The message has no content.'
  return parts.some(({ type }) => type === 'tool')
    ? 'The message consists of tool calls, which cannot be edited: send another message instead.'
    : null
}

/** Returns why a message cannot be deleted now; null if the deletion is allowed. */
export function faultOfDeletion({ status, deletedAt, parts }: Changed): string | null {
  if (deletedAt !== null) return DELETED
  if (status === 'STREAMING') return STREAMING
  return isFinalMessage(status) || parts.some(isUnfinished) ? null : WAITS
}

/** Returns the parts of a message after an edit: the new text replaces all texts, and the files are kept. */
export function editedParts(parts: readonly MessagePart[], text: string): MessagePart[] {
  return [{ type: 'text', text }, ...parts.filter(({ type }) => type !== 'text')]
}

const EMOJI = /^\p{RGI_Emoji}$/v

/** Whether a text is exactly one emoji that Unicode recommends for general interchange (RGI). */
export const isEmoji = (text: string): boolean => EMOJI.test(text)

const RETRIED = 'The message was edited, and its sender asked for a new run.'
const PAUSED = 'The message was edited, but the agent is paused and has no inbox.'

/**
 * Decides which of the agents that answered an earlier version of a message are woken again. Returns them in the order
 * in which they joined, without agents that have left the space.
 */
export function decideRetries(
  answeredIds: ReadonlySet<string>,
  agents: readonly AgentMember[],
  { count, reason }: Allowance,
): Decision {
  const wakes: AgentMember[] = []
  const verdictOf = (agent: AgentMember): Verdict => {
    const verdict = { agentId: agent.id, runId: null }
    const over = overBudgetOf(agent)
    if (losesTriggers(agent)) return { ...verdict, kind: 'PAUSED', reason: PAUSED }
    if (over !== null) return { ...verdict, kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over] }
    if (wakes.length >= count) return { ...verdict, kind: 'LOOP_LIMIT', reason }
    wakes.push(agent)
    return { ...verdict, kind: wayToWake(agent), reason: RETRIED }
  }
  const verdicts = agents.filter(({ id }) => answeredIds.has(id)).map(verdictOf)
  return { wakes, verdicts, turn: null }
}

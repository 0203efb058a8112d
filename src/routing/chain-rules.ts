import type { Limits } from '../config.ts'
import type { Waiter } from '../runs/chains.ts'
import type { Refusal } from '../runs/handing-on.ts'

/** What of a chain its rules look at and change. */
export interface ChainState {
  /** Runs so far. */
  depth: number
  replyStack: Waiter[]
  mentionedPairs: string[]
}

/** An agent asks that another has the next turn. */
export interface Mention {
  type: 'mention'
  targetId: string
  reason: string | null
  expectReply: boolean
  /** Where it was made: the target is woken there, and who expects a reply is called back there. */
  spaceId: string
}

/** A silent handoff: the target takes the delegator's place, on the reply stack too. */
export interface Delegation {
  type: 'delegation'
  targetId: string
  reason: string | null
}

/** Who has the next turn, and why. */
export type NextTurn = Mention | Delegation | { type: 'callback'; waiter: Waiter }

/** The state after a turn, and whose turn is next: null ends the chain. The turn counts once its agent is woken. */
export interface Step {
  state: ChainState
  next: NextTurn | null
  /** The turn that a limit forbids. */
  forbidden?: NextTurn
}

export type ChainLimits = Pick<Limits, 'maxChainDepth' | 'maxReplyStack'>

/** A chain before anything was handed on: the turn of the run that begins it. */
export const NEW_CHAIN: ChainState = { depth: 1, replyStack: [], mentionedPairs: [] }

const pairOf = (fromId: string, toId: string) => `${fromId}->${toId}`

/** Why an agent may not mention another at this point of the chain; null where it may. */
export function refuseMention(
  { depth, replyStack, mentionedPairs }: ChainState,
  fromId: string,
  { targetId, expectReply }: Pick<Mention, 'targetId' | 'expectReply'>,
  { maxChainDepth, maxReplyStack }: ChainLimits,
): Refusal | null {
  if (targetId === fromId) {
    return { code: 'SELF_MENTION', message: 'An agent cannot mention itself. Mention another agent, or none.' }
  }
  if (mentionedPairs.includes(pairOf(targetId, fromId))) {
    return {
      code: 'CIRCULAR_MENTION',
      message:
        'That agent has already mentioned you in this chain, so you cannot mention it back: it is called back by itself if it waits for you. Say what you have to say, and end.',
    }
  }
  if (depth >= maxChainDepth) return tooDeep(maxChainDepth)
  if (expectReply && replyStack.length >= maxReplyStack) {
    return {
      code: 'REPLY_STACK_FULL',
      message: `${maxReplyStack} agents wait for a reply in this chain already, the most there may be. Mention without expectReply, or answer with what you have.`,
    }
  }
  return null
}

/** Why a chain goes no further by delegation; null where it may. */
export function refuseDelegation({ depth }: ChainState, { maxChainDepth }: ChainLimits): Refusal | null {
  return depth >= maxChainDepth ? tooDeep(maxChainDepth) : null
}

function tooDeep(maxChainDepth: number): Refusal {
  return {
    code: 'LOOP_LIMIT',
    message: `This chain has had ${maxChainDepth} runs, the most it may have: nobody can be woken any more. Answer with what you have.`,
  }
}

/**
 * What follows when an agent's turn is over. A mention or a delegation that the rules allow comes next; anything else (it
 * responded, skipped, failed or was stopped) calls back who waits. At the greatest depth the stack is cleared.
 */
export function afterTurn(
  state: ChainState,
  agentId: string,
  handingOn: Mention | Delegation | null,
  limits: ChainLimits,
): Step {
  if (handingOn?.type === 'delegation') return within({ state, next: handingOn }, limits)
  if (handingOn?.type !== 'mention' || refuseMention(state, agentId, handingOn, limits) !== null) {
    return callBack(state, limits)
  }
  const { targetId, reason, spaceId, expectReply } = handingOn
  const mentionedPairs = [...new Set([...state.mentionedPairs, pairOf(agentId, targetId)])]
  const waiter = { entityId: agentId, reason, spaceId }
  const replyStack = expectReply ? [...state.replyStack, waiter] : state.replyStack
  return within({ state: { ...state, mentionedPairs, replyStack }, next: handingOn }, limits)
}

/** The agent that asked last is called back; nobody where nobody waits. */
export function callBack(state: ChainState, limits: ChainLimits): Step {
  const waiter = state.replyStack.at(-1)
  if (waiter === undefined) return { state, next: null }
  return within(
    { state: { ...state, replyStack: state.replyStack.slice(0, -1) }, next: { type: 'callback', waiter } },
    limits,
  )
}

/** At a limit nobody is woken any more: whoever waits, waits no longer. */
export function cutShort({ state, next }: Step): Step {
  return { state: { ...state, replyStack: [] }, next: null, ...(next === null ? {} : { forbidden: next }) }
}

function within(step: Step, { maxChainDepth }: ChainLimits): Step {
  return step.state.depth < maxChainDepth ? step : cutShort(step)
}

/** The agent whose turn it is. */
export function agentOf(turn: NextTurn): string {
  return turn.type === 'callback' ? turn.waiter.entityId : turn.targetId
}

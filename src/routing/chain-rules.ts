import type { Limits } from '../config.ts'
import type { Waiter } from '../runs/chains.ts'
import type { Refusal } from '../runs/handing-on.ts'

/** The state of a chain as its rules see and change it. */
export interface ChainState {
  /** Runs so far. */
  depth: number
  replyStack: Waiter[]
  mentionedPairs: string[]
}

/** An agent passes the turn to another. */
export interface Mention {
  type: 'mention'
  targetId: string
  reason: string | null
  expectReply: boolean
  /** The space of the mention: the target is woken there, and an agent that expects a reply is called back there. */
  spaceId: string
}

/** A silent handoff: the target replaces the delegator, on the reply stack too. */
export interface Delegation {
  type: 'delegation'
  targetId: string
  reason: string | null
  /** The space in which the target is a member. */
  spaceId: string
}

/** The next turn and its reason. */
export type NextTurn = Mention | Delegation | { type: 'callback'; waiter: Waiter }

/** The state after a turn, and the next turn; null ends the chain. A turn counts once its agent is woken. */
export interface Step {
  state: ChainState
  next: NextTurn | null
  /** The turn that a limit prevented. */
  forbidden?: NextTurn
}

export type ChainLimits = Pick<Limits, 'maxChainDepth' | 'maxReplyStack'>

/** A chain during the run that begins it. */
export const NEW_CHAIN: ChainState = { depth: 1, replyStack: [], mentionedPairs: [] }

const pairOf = (fromId: string, toId: string) => `${fromId}->${toId}`

/** Why an agent may not mention another at this point of the chain; null if it may. */
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
  const tooDeep = refuseByDepth({ depth, replyStack }, { expectReply }, maxChainDepth)
  if (tooDeep !== null || !expectReply || replyStack.length < maxReplyStack) return tooDeep
  return {
    code: 'REPLY_STACK_FULL',
    message: `${maxReplyStack} agents wait for a reply in this chain already, the most there may be. Mention without expectReply, or answer with what you have.`,
  }
}

/** Why an agent may not delegate at this point of the chain; null if it may. */
export function refuseDelegation(
  state: Pick<ChainState, 'depth' | 'replyStack'>,
  { maxChainDepth }: Pick<ChainLimits, 'maxChainDepth'>,
): Refusal | null {
  return refuseByDepth(state, { expectReply: false }, maxChainDepth)
}

/** The number of runs to reserve for waking an agent: its own, and one call-back for each waiting agent. */
export function runsToCome(
  { replyStack }: Pick<ChainState, 'replyStack'>,
  { expectReply }: { expectReply: boolean },
): number {
  return 1 + replyStack.length + (expectReply ? 1 : 0)
}

/** Agents on the reply stack are promised a call-back: no later turn may use up the runs that those need. */
function refuseByDepth(
  { depth, replyStack }: Pick<ChainState, 'depth' | 'replyStack'>,
  { expectReply }: { expectReply: boolean },
  maxChainDepth: number,
): Refusal | null {
  const hasRoom = (replies: boolean) => depth + runsToCome({ replyStack }, { expectReply: replies }) <= maxChainDepth
  if (hasRoom(expectReply)) return null
  const had = `This chain has had ${depth} of the ${maxChainDepth} runs that it may have`
  const why =
    depth >= maxChainDepth
      ? ': nobody can be woken any more. Answer with what you have.'
      : expectReply && hasRoom(false)
        ? ': you could not be called back. Mention without expectReply, or answer with what you have.'
        : ', and keeps the others for the agents that wait to be called back. Answer with what you have: they get it.'
  return { code: 'LOOP_LIMIT', message: `${had}${why}` }
}

/**
 * The next step after an agent's turn. A mention or delegation that the rules allow comes next;
 * after anything else (it responded, skipped, failed or was stopped) the waiting agent is called
 * back. At the maximum depth the stack is cleared.
 */
export function afterTurn(
  state: ChainState,
  agentId: string,
  handingOn: Mention | Delegation | null,
  limits: ChainLimits,
): Step {
  if (handingOn === null) return callBack(state, limits)
  if (handingOn.type === 'delegation') {
    return refuseDelegation(state, limits) === null ? { state, next: handingOn } : callBack(state, limits)
  }
  if (refuseMention(state, agentId, handingOn, limits) !== null) return callBack(state, limits)
  const { targetId, reason, spaceId, expectReply } = handingOn
  const mentionedPairs = [...new Set([...state.mentionedPairs, pairOf(agentId, targetId)])]
  const waiter = { entityId: agentId, reason, spaceId }
  const replyStack = expectReply ? [...state.replyStack, waiter] : state.replyStack
  return { state: { ...state, mentionedPairs, replyStack }, next: handingOn }
}

/** Calls back the agent that was the last to expect a reply, if any. */
export function callBack(state: ChainState, limits: ChainLimits): Step {
  const waiter = state.replyStack.at(-1)
  if (waiter === undefined) return { state, next: null }
  const step: Step = {
    state: { ...state, replyStack: state.replyStack.slice(0, -1) },
    next: { type: 'callback', waiter },
  }
  return state.depth < limits.maxChainDepth ? step : cutShort(step)
}

/** Ends the chain at a limit and clears the reply stack. */
export function cutShort({ state, next }: Step): Step {
  return { state: { ...state, replyStack: [] }, next: null, ...(next === null ? {} : { forbidden: next }) }
}

/** The agent whose turn it is. */
export function agentOf(turn: NextTurn): string {
  return turn.type === 'callback' ? turn.waiter.entityId : turn.targetId
}

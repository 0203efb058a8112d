import type { RunEnding } from './run-end.ts'

/**
 * An agent that mentioned another agent with `expectReply`. It is called back in this space when the turns that it
 * started have ended.
 */
export interface Waiter {
  entityId: string
  /** The reason that the agent gave for its mention. */
  reason: string | null
  spaceId: string
  /** The thread in which the agent waits; absent or null if the agent does not wait in a thread. */
  threadRootId?: string | null
}

/** A sequence of runs that pass the turn to each other. */
export interface Chain {
  id: string
  /** The space in which the chain began. */
  spaceId: string
  /** The number of runs so far, including call-backs. */
  depth: number
  /**
   * The agent that has the turn, and its run (null for a persistent agent). When the chain has ended, neither is set.
   */
  holderId: string | null
  holderRunId: string | null
  /** The agents that wait to be called back; the last one is called back first. */
  replyStack: Waiter[]
  /** Every mention so far, in the form `<from>-><to>`. */
  mentionedPairs: string[]
  /** The confidentiality label of all content that agents of the chain passed on, except for the chain's own space. */
  label: string[]
}

/** The agent that passed the turn to a run, with the name that it had at that time. */
export type WokenBy =
  /** The agent posted a message that mentioned the run's agent. With `expectReply`, it waits for a reply. */
  | { type: 'mention'; agentId: string; agentName: string; reason: string | null; expectReply: boolean }
  /** The agent delegated its own trigger without posting. */
  | { type: 'delegation'; agentId: string; agentName: string; reason: string | null }
  /**
   * The run's agent had mentioned other agents (`askedFor`) and is now called back. `ended` is the outcome of the last
   * turn.
   */
  | {
      type: 'callback'
      agentId: string
      agentName: string
      askedFor: string | null
      ended: TurnOutcome
      /** The reason that the agent gave for skipping. */
      reason: string | null
    }

/**
 * How a turn in a chain ended, from the view of the waiting agent. A turn without a message in that agent's space
 * counts as skipped.
 */
export type TurnOutcome = 'responded' | 'skipped' | 'failed' | 'stopped' | 'unreachable'

/** An error for the model. */
export interface Refusal {
  code: string
  message: string
}

/** The part of a chain's state that its rules read and change. */
export interface ChainState {
  /** The number of runs so far. */
  depth: number
  replyStack: Waiter[]
  mentionedPairs: string[]
}

/** An agent passes the turn to another agent by mentioning it. */
export interface Mention {
  type: 'mention'
  targetId: string
  reason: string | null
  expectReply: boolean
  /** The space of the mention. The target is woken here, and an agent that expects a reply is called back here. */
  spaceId: string
  /** The thread of the mention. */
  threadRootId?: string | null
  /** The thread in which an agent that expects a reply is called back. */
  callBackThreadId?: string | null
}

/** A delegation without a message. The target replaces the delegator, including on the reply stack. */
export interface Delegation {
  type: 'delegation'
  targetId: string
  reason: string | null
  /** The space in which the target is woken. */
  spaceId: string
}

/** The next turn and its reason. */
export type NextTurn = Mention | Delegation | { type: 'callback'; waiter: Waiter }

/**
 * The state after a turn, and the next turn (null if the chain ends). The next turn is added to the state when its
 * agent has been woken.
 */
export interface Step {
  state: ChainState
  next: NextTurn | null
  /** The turn that a limit prevented. */
  forbidden?: NextTurn
}

export interface ChainLimits {
  maxChainDepth: number
  maxReplyStack: number
}

/** The state of a chain in its first run. */
export const NEW_CHAIN: ChainState = { depth: 1, replyStack: [], mentionedPairs: [] }

const pairOf = (fromId: string, toId: string) => `${fromId}->${toId}`

/** Returns why an agent may not mention another agent at this point of the chain; null if the mention is allowed. */
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
        'That agent has already mentioned you in this chain, so you cannot mention it back: it is called back automatically if it waits for you. Post what you have to say, and end.',
    }
  }
  const tooDeep = refuseByDepth({ depth, replyStack }, { expectReply }, maxChainDepth)
  if (tooDeep !== null || !expectReply || replyStack.length < maxReplyStack) return tooDeep
  return {
    code: 'REPLY_STACK_FULL',
    message: `${maxReplyStack} agents already wait for a reply in this chain, which is the maximum. Mention without expectReply, or answer with what you have.`,
  }
}

/** Returns why an agent may not delegate at this point of the chain; null if the delegation is allowed. */
export function refuseDelegation(
  state: Pick<ChainState, 'depth' | 'replyStack'>,
  { maxChainDepth }: Pick<ChainLimits, 'maxChainDepth'>,
): Refusal | null {
  return refuseByDepth(state, { expectReply: false }, maxChainDepth)
}

/** Returns the number of runs to reserve for waking an agent: its own, and one call-back for each waiting agent. */
export function runsToCome(
  { replyStack }: Pick<ChainState, 'replyStack'>,
  { expectReply }: { expectReply: boolean },
): number {
  return 1 + replyStack.length + (expectReply ? 1 : 0)
}

/** Refuses a turn after which too few runs would be left to call back the agents on the reply stack. */
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
      ? ': no agent can be woken any more. Answer with what you have.'
      : expectReply && hasRoom(false)
        ? ': you could not be called back. Mention without expectReply, or answer with what you have.'
        : ', and the remaining runs are reserved for the agents that wait to be called back. Answer with what you have: they receive it.'
  return { code: 'LOOP_LIMIT', message: `${had}${why}` }
}

/**
 * Returns the next step after an agent's turn. A mention or delegation that the rules allow comes next. If there is
 * none, because the agent responded, skipped, failed or was stopped, the waiting agent is called back. At the maximum
 * depth, the reply stack is cleared.
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
  const { targetId, reason, spaceId, callBackThreadId = null, expectReply } = handingOn
  const mentionedPairs = [...new Set([...state.mentionedPairs, pairOf(agentId, targetId)])]
  const waiter = {
    entityId: agentId,
    reason,
    spaceId,
    ...(callBackThreadId === null ? {} : { threadRootId: callBackThreadId }),
  }
  const replyStack = expectReply ? [...state.replyStack, waiter] : state.replyStack
  return { state: { ...state, mentionedPairs, replyStack }, next: handingOn }
}

/** Calls back the last agent on the reply stack, if any. */
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

/** Returns the agent that gets the turn. */
export function agentOf(turn: NextTurn): string {
  return turn.type === 'callback' ? turn.waiter.entityId : turn.targetId
}

/** How a turn ended: its mention or delegation, if any, and its outcome for a waiting agent. */
export interface TurnEnd {
  handingOn: Mention | Delegation | null
  /** The outcome to report to the waiting agent if the run posted nothing in that agent's space. */
  silent: Exclude<TurnOutcome, 'responded'>
  /** Why the agent skipped. */
  reason: string | null
}

/**
 * Returns how the turn of a run ended. A canceled or failed run does not pass its turn.
 * @param mention the mention that the run requested or posted
 */
export function turnEndOf(ending: RunEnding, mention: Mention | null): TurnEnd {
  const end = { handingOn: null, reason: null }
  if (ending.status === 'FAILED') return { ...end, silent: 'failed' }
  if (ending.status === 'COMPLETED') {
    return { handingOn: mention, silent: 'skipped', reason: ending.skipped?.reason ?? null }
  }
  if (ending.stopReason !== 'HANDED_ON') return { ...end, silent: 'stopped' }
  const { targetAgentId: targetId, ...delegated } = ending.delegated
  return { ...end, handingOn: { type: 'delegation', targetId, ...delegated }, silent: 'skipped' }
}

/** Reads a mention from the result of mentionAgent, or from a message with a mention. */
export function mentionIn({ targetAgentEntityId, spaceId, reason, expectReply }: Record<string, unknown>): Mention {
  return {
    type: 'mention',
    targetId: String(targetAgentEntityId),
    spaceId: String(spaceId),
    reason: typeof reason === 'string' ? reason : null,
    expectReply: expectReply === true,
  }
}

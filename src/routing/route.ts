import type { Mind, OutcomeKind, Routing } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../platform/budget-state.ts'

/** A message, as routing sees it. */
export interface RoutableMessage {
  senderId: string
  senderKind: 'HUMAN' | 'AGENT'
  mentionedAgentId: string | null
}

/** An agent member of the space, in the order in which they joined. */
export interface AgentMember {
  id: string
  name: string
  mind: Mind
  /** In milliseconds since 1970. */
  joinedAt: number
  /** Nothing wakes it; a persistent one keeps what comes in its inbox. */
  paused?: boolean
  /** Whose budget is spent, where one is: only what a day brings back waits, in a persistent one's inbox. */
  over?: OverBudget | null
}

/** The space at the moment of posting. */
export interface Room {
  routing: Routing
  adminAgentId: string | null
  /** The agent that was picked last, when its turn counts, and when it had joined; it may have left since. */
  lastPicked: { joinedAt: number; id: string } | null
  agents: AgentMember[]
}

/** Who wakes and why; and who does not and why. Every agent member but the sender is in one of the two. */
export interface RoutingDecision {
  wakes: { agent: AgentMember; reason: string }[]
  sleeps: { agent: AgentMember; kind: OutcomeKind; reason: string }[]
  /** The agent whose turn it was, where turns are taken and this message took one. */
  picked: AgentMember | null
}

/** Who a message wakes: a pure function of the message and the room. */
export type Route = (message: RoutableMessage, room: Room) => RoutingDecision

/** A paused agent that has no inbox in which anything could wait. */
export function losesTriggers({ mind, paused }: AgentMember): boolean {
  return paused === true && mind === 'STATELESS'
}

/** Whose budget keeps it from being woken: of a root that is spent nothing waits for another day. */
export function overBudgetOf({ mind, over }: Pick<AgentMember, 'mind' | 'over'>): OverBudget | null {
  return over != null && (mind === 'STATELESS' || over === 'ROOT') ? over : null
}

const PAUSED = 'The agent is paused and keeps no inbox.'

/** A decision that wakes those for whom `why` gives a reason, and says `whyNot` of the others. */
export function decide(
  message: RoutableMessage,
  room: Room,
  why: (agent: AgentMember) => string | null,
  whyNot: (agent: AgentMember) => string,
): RoutingDecision {
  const decision: RoutingDecision = { wakes: [], sleeps: [], picked: null }
  for (const agent of room.agents) {
    if (agent.id === message.senderId) continue
    const reason = why(agent)
    const over = overBudgetOf(agent)
    if (reason !== null && losesTriggers(agent)) decision.sleeps.push({ agent, kind: 'PAUSED', reason: PAUSED })
    else if (reason !== null && over !== null)
      decision.sleeps.push({ agent, kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over] })
    else if (reason !== null) decision.wakes.push({ agent, reason })
    else decision.sleeps.push({ agent, kind: 'NOT_ROUTED', reason: whyNot(agent) })
  }
  return decision
}

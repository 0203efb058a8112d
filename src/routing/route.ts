import type { Mind, OutcomeKind, Routing } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../platform/budget-state.ts'

/** A message as routing sees it. */
export interface RoutableMessage {
  senderId: string
  senderKind: 'HUMAN' | 'AGENT'
  mentionedAgentId: string | null
}

/** An agent member of the space, in join order. */
export interface AgentMember {
  id: string
  name: string
  mind: Mind
  /** In milliseconds since 1970. */
  joinedAt: number
  /** A paused agent is not woken; a persistent one keeps events in its inbox. */
  paused?: boolean
  /**
   * The exhausted budget, if there is one. Events wait in a persistent agent's inbox only for a
   * budget that renews daily.
   */
  over?: OverBudget | null
}

/** The space when the message is posted. */
export interface Room {
  routing: Routing
  adminAgentId: string | null
  /** The agent picked last by turn, with its join time; it may have left since. */
  lastPicked: { joinedAt: number; id: string } | null
  agents: AgentMember[]
}

/** Which agents are woken, which are not, and why. Each agent member except the sender is in one of the two lists. */
export interface RoutingDecision {
  wakes: { agent: AgentMember; reason: string }[]
  sleeps: { agent: AgentMember; kind: OutcomeKind; reason: string }[]
  /** The agent whose turn it was, if this message took one. */
  picked: AgentMember | null
}

/** Decides whom a message wakes. Pure. */
export type Route = (message: RoutableMessage, room: Room) => RoutingDecision

/** A paused agent without an inbox loses its triggers. */
export function losesTriggers({ mind, paused }: AgentMember): boolean {
  return paused === true && mind === 'STATELESS'
}

/** The budget that prevents waking the agent. For an exhausted root budget, events do not wait for another day. */
export function overBudgetOf({ mind, over }: Pick<AgentMember, 'mind' | 'over'>): OverBudget | null {
  return over != null && (mind === 'STATELESS' || over === 'ROOT') ? over : null
}

const PAUSED = 'The agent is paused and keeps no inbox.'

/** Wakes the agents for which `why` returns a reason; records `whyNot` for the others. */
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

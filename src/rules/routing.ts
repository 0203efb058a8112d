import type { Mind, OutcomeKind, Routing } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { losesTriggers, overBudgetOf, wayToWake } from './wake.ts'

/** The fields of a message that routing needs. */
export interface RoutableMessage {
  senderId: string
  senderKind: 'HUMAN' | 'AGENT'
  /** The ids of the mentioned humans and agents. */
  mentions: readonly string[]
}

/** An agent that is a member of the space. Members are in the order in which they joined. */
export interface AgentMember {
  id: string
  name: string
  mind: Mind
  /** When the agent joined, in milliseconds since 1970. */
  joinedAt: number
  /** Whether the agent is paused. A paused agent is not woken. If it is persistent, events wait in its inbox. */
  paused?: boolean
  /**
   * The exhausted budget, if there is one. If that budget renews daily, a persistent agent's events wait in its inbox.
   */
  over?: OverBudget | null
}

/** The state of the space when the message is posted. */
export interface Room {
  routing: Routing
  adminAgentId: string | null
  /** Only for BROADCAST: whether a message that mentions agents wakes only these agents. */
  mentionNarrows: boolean
  /** The agent that had the last turn, and when it joined. The agent may have left since. */
  lastPicked: { joinedAt: number; id: string } | null
  agents: AgentMember[]
}

/**
 * The agents that are woken and the agents that are not, with reasons. Every agent in the space, except the sender, is
 * in one of the two lists.
 */
export interface RoutingDecision {
  wakes: { agent: AgentMember; reason: string }[]
  sleeps: { agent: AgentMember; kind: OutcomeKind; reason: string }[]
  /** The agent that gets this turn, if the message takes a turn. */
  picked: AgentMember | null
}

/** Decides which agents a message wakes, for one kind of routing. */
export type Route = (message: RoutableMessage, room: Room) => RoutingDecision

const PAUSED = 'The agent is paused and has no inbox, so the message will not wake it later.'

/**
 * Puts the agents for which `why` returns a reason on the list of woken agents, unless they are paused or their budget
 * is exhausted. Puts all others on the other list, with reasons.
 */
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

/** The reason with which a mentioned agent is woken. */
export const WAS_MENTIONED = 'This agent was mentioned.'

/**
 * BROADCAST: a message wakes all agents in the space except its sender. If the space has `mentionNarrows`, a message
 * that mentions agents wakes only these.
 */
const broadcast: Route = (message, room) => {
  const isMentioned = ({ id }: AgentMember) => message.mentions.includes(id)
  const isNarrowed = room.mentionNarrows && room.agents.some(isMentioned)
  return decide(
    message,
    room,
    (agent) => {
      if (!isNarrowed) return 'BROADCAST wakes every agent in the space except the sender.'
      return isMentioned(agent) ? WAS_MENTIONED : null
    },
    () => 'Another agent was mentioned, and in this space a mention wakes only the mentioned agent.',
  )
}

/**
 * ADMIN: a human's message wakes the space's admin agent or, if none is configured, its only agent. An agent's
 * message wakes only the agent that it mentions.
 */
export const admin: Route = (message, room) => {
  if (message.senderKind === 'AGENT') {
    return decide(
      message,
      room,
      (agent) => (message.mentions.includes(agent.id) ? 'The sending agent mentioned this agent.' : null),
      () => "Under ADMIN routing an agent's message wakes only the agent that it mentions.",
    )
  }
  const only = room.agents.length === 1 ? room.agents[0]?.id : undefined
  const target = room.adminAgentId ?? only
  return decide(
    message,
    room,
    (agent) =>
      agent.id === target
        ? agent.id === room.adminAgentId
          ? 'This agent is the admin agent.'
          : 'This agent is the only agent of the space.'
        : null,
    () =>
      room.agents.some((agent) => agent.id === target)
        ? "Under ADMIN routing a human's message wakes the admin agent."
        : 'The space has no admin agent among its members: set one with updateSpace.',
  )
}

/**
 * With MENTION_CHAIN, a human's message wakes one agent: the mentioned agent or, without a mention, the next agent in turn that is not paused. A mention does not advance the turn. An agent's message wakes nobody, because its mentions take
 * effect when its run ends.
 */
export const mentionChain: Route = (message, room) => {
  if (message.senderKind === 'AGENT') {
    return decide(
      message,
      room,
      () => null,
      () => "Under MENTION_CHAIN routing an agent's message wakes nobody: a mention takes effect when the run ends.",
    )
  }
  const mentioned = room.agents.find(({ id }) => message.mentions.includes(id))
  const picked = mentioned ?? nextInTurn({ ...room, agents: room.agents.filter(({ paused }) => paused !== true) })
  const decision = decide(
    message,
    room,
    (agent) => (agent !== picked ? null : agent === mentioned ? WAS_MENTIONED : "It was this agent's turn."),
    () => 'Another agent was picked.',
  )
  const sleeps = decision.sleeps.map(passedOver)
  return { ...decision, sleeps, picked: mentioned === undefined ? (picked ?? null) : null }
}

/**
 * Returns the agent whose turn is next, in the order of joining. This is the agent after the one that had the last turn
 * (and may have left), or the first agent after the last one. New members come last, so they wait at most one full
 * rotation.
 */
export function nextInTurn({ agents, lastPicked }: Pick<Room, 'agents' | 'lastPicked'>): AgentMember | undefined {
  if (lastPicked === null) return agents[0]
  const last = lastPicked
  const isAfter = ({ joinedAt, id }: AgentMember) =>
    joinedAt > last.joinedAt || (joinedAt === last.joinedAt && id > last.id)
  return agents.find(isAfter) ?? agents[0]
}

type Sleep = RoutingDecision['sleeps'][number]

function passedOver(sleep: Sleep): Sleep {
  if (sleep.agent.paused !== true) return sleep
  const kind = losesTriggers(sleep.agent) ? 'PAUSED' : 'NOT_ROUTED'
  return { agent: sleep.agent, kind, reason: 'The agent is paused, so its turn was skipped.' }
}

/** The routing functions by kind of routing. */
export const ROUTES: Record<Routing, Route> = { BROADCAST: broadcast, ADMIN: admin, MENTION_CHAIN: mentionChain }

/** The outcome of a message for one agent. */
export interface Verdict {
  agentId: string
  kind: OutcomeKind
  reason: string
  /** The waiting run that the message answers, if any. */
  runId: string | null
}

/** The effects of a message on the agents in its space. */
export interface Decision {
  /** The agents to wake, in the order in which they joined. */
  wakes: AgentMember[]
  /** The outcome for each agent member except the sender. */
  verdicts: Verdict[]
  /** The agent whose turn the message takes. */
  turn: AgentMember | null
}

/** The agents that waited for the message, each with its waiting run. */
export type Answered = ReadonlyMap<string, string>

const NOBODY: Answered = new Map()

/**
 * Decides which agents a message wakes. An agent that waited for the message receives it as the answer and is not
 * woken.
 */
export function decideWakes(message: RoutableMessage, room: Room, answered: Answered = NOBODY): Decision {
  const { wakes, sleeps, picked } = ROUTES[room.routing](message, room)
  const waited = ({ id }: AgentMember) => answered.has(id)
  const woken = wakes.filter(({ agent }) => !waited(agent))
  return {
    wakes: woken.map(({ agent }) => agent),
    verdicts: [
      ...woken.map(verdictOfWake),
      ...sleeps
        .filter(({ agent }) => !waited(agent))
        .map(({ agent, kind, reason }) => ({ agentId: agent.id, kind, reason, runId: null })),
      ...room.agents.filter(waited).map(({ id }) => ({
        agentId: id,
        kind: 'ANSWERED' as const,
        reason: ANSWERED,
        runId: answered.get(id) ?? null,
      })),
    ],
    turn: picked !== null && waited(picked) ? null : picked,
  }
}

/**
 * Returns the outcome for an agent to wake. A persistent agent keeps the event in its inbox until its budget renews.
 */
function verdictOfWake({ agent, reason }: RoutingDecision['wakes'][number]): Verdict {
  const { id: agentId, over } = agent
  if (over == null || wayToWake(agent) === 'RUN') return { agentId, kind: wayToWake(agent), reason, runId: null }
  return { agentId, kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over], runId: null }
}

/** The reason of the outcome ANSWERED. */
export const ANSWERED = 'The message answered a waiting run of this agent.'

/** How many more agents a root may wake, and the reason for this limit. */
export interface Allowance {
  count: number
  reason: string
}

/** Applies the loop limits: agents beyond the allowance are not woken. */
export function limitWakes({ wakes, verdicts, turn }: Decision, { count, reason }: Allowance): Decision {
  const cut = new Set(wakes.slice(count).map(({ id }) => id))
  return {
    wakes: wakes.slice(0, count),
    verdicts: verdicts.map((one) => (cut.has(one.agentId) ? { ...one, kind: 'LOOP_LIMIT', reason } : one)),
    turn,
  }
}

/**
 * Returns why the mentions of a message are refused; null if they are accepted. An agent sees which agents are paused
 * before it writes, so its finished message is accepted.
 */
export function faultOfMentions(
  { mentions, senderKind }: RoutableMessage,
  { routing, agents, members }: Pick<Room, 'routing' | 'agents'> & { members: Pick<Map<string, unknown>, 'has'> },
): string | null {
  if (!mentions.every((id) => members.has(id))) return 'Only a member of the space can be mentioned.'
  const mentioned = agents.filter(({ id }) => mentions.includes(id))
  if (routing === 'MENTION_CHAIN' && mentioned.length > 1)
    return 'In a space with MENTION_CHAIN routing, a message can mention only one agent.'
  return senderKind === 'HUMAN' && mentioned.some(({ paused }) => paused === true)
    ? 'A mentioned agent is paused: mention another agent, or none.'
    : null
}

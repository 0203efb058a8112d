import type { Routing } from '../generated/prisma/client.ts'
import { type AgentMember, decide, losesTriggers, type Room, type Route, type RoutingDecision } from './route.ts'

/** BROADCAST: a message wakes every agent member except its sender. */
const broadcast: Route = (message, room) =>
  decide(
    message,
    room,
    () => 'BROADCAST wakes every agent member but the sender.',
    () => '',
  )

/**
 * ADMIN: a human's message wakes the space's admin agent, or its only agent if none is set. An
 * agent's message wakes only the agent that it mentions.
 */
export const admin: Route = (message, room) => {
  if (message.senderKind === 'AGENT') {
    return decide(
      message,
      room,
      (agent) => (agent.id === message.mentionedAgentId ? 'The sending agent mentioned this agent.' : null),
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
 * MENTION_CHAIN: a human's message wakes one agent: the mentioned one, or the next in turn that is
 * not paused (a mention does not advance the turn). An agent's message wakes nobody: its mentions
 * take effect when its run ends.
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
  const mentioned = room.agents.find(({ id }) => id === message.mentionedAgentId)
  const picked = mentioned ?? nextInTurn({ ...room, agents: room.agents.filter(({ paused }) => paused !== true) })
  const decision = decide(
    message,
    room,
    (agent) =>
      agent !== picked ? null : agent === mentioned ? 'This agent was mentioned.' : "It was this agent's turn.",
    () => 'Another agent was picked.',
  )
  const sleeps = decision.sleeps.map(passedOver)
  return { ...decision, sleeps, picked: mentioned === undefined ? (picked ?? null) : null }
}

/**
 * Returns the agent whose turn it is: the first one in join order after the agent picked last
 * (which may have left), wrapping around. A new member comes last, so it waits one round at most.
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

/** The routing functions, by routing. */
export const ROUTES: Record<Routing, Route> = { BROADCAST: broadcast, ADMIN: admin, MENTION_CHAIN: mentionChain }

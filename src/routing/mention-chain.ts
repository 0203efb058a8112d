import { type AgentMember, decide, losesTriggers, type Room, type Route, type RoutingDecision } from './route.ts'

/**
 * Whose turn it is: the first agent in join order after the place of the one picked last, who may have left since; from the
 * beginning again after the last. A newcomer stands at the end, and so waits a whole round at most.
 */
export function nextInTurn({ agents, lastPicked }: Pick<Room, 'agents' | 'lastPicked'>): AgentMember | undefined {
  if (lastPicked === null) return agents[0]
  const last = lastPicked
  const isAfter = ({ joinedAt, id }: AgentMember) =>
    joinedAt > last.joinedAt || (joinedAt === last.joinedAt && id > last.id)
  return agents.find(isAfter) ?? agents[0]
}

/**
 * MENTION_CHAIN: a human's message wakes one agent, the mentioned one or the next in turn that is not paused (a mention takes nobody's turn);
 * an agent's message wakes nobody, for its mentions act when its run ends.
 */
export const mentionChain: Route = (message, room) => {
  if (message.senderKind === 'AGENT') {
    return decide(
      message,
      room,
      () => null,
      () => 'Under MENTION_CHAIN routing an agent hands on by mentionAgent, when its run ends.',
    )
  }
  const mentioned = room.agents.find(({ id }) => id === message.mentionedAgentId)
  const picked = mentioned ?? nextInTurn({ ...room, agents: room.agents.filter(({ paused }) => paused !== true) })
  const decision = decide(
    message,
    room,
    (agent) => (agent !== picked ? null : agent === mentioned ? 'It was mentioned.' : 'It was its turn.'),
    () => 'Another agent was picked.',
  )
  const sleeps = decision.sleeps.map(passedOver)
  return { ...decision, sleeps, picked: mentioned === undefined ? (picked ?? null) : null }
}

type Sleep = RoutingDecision['sleeps'][number]

function passedOver(sleep: Sleep): Sleep {
  if (sleep.agent.paused !== true) return sleep
  const kind = losesTriggers(sleep.agent) ? 'PAUSED' : 'NOT_ROUTED'
  return { agent: sleep.agent, kind, reason: 'It is paused: turns pass over it.' }
}

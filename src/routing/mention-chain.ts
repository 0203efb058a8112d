import { type AgentMember, decide, type Room, type Route } from './route.ts'

/** The mentioned agent, else the next in turn: join order, after the one picked last. */
function pick(mentionedId: string | null, room: Room): AgentMember | undefined {
  const mentioned = room.agents.find((agent) => agent.id === mentionedId)
  if (mentioned !== undefined) return mentioned
  const last = room.agents.findIndex((agent) => agent.id === room.lastPickedId)
  return room.agents[(last + 1) % Math.max(room.agents.length, 1)]
}

/**
 * MENTION_CHAIN: a human's message wakes one agent, the mentioned one or the next in turn;
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
  const picked = pick(message.mentionedAgentId, room)
  const decision = decide(
    message,
    room,
    (agent) =>
      agent.id !== picked?.id ? null : agent.id === message.mentionedAgentId ? 'It was mentioned.' : 'It was its turn.',
    () => 'Another agent was picked.',
  )
  const byTurn = picked !== undefined && picked.id !== message.mentionedAgentId
  return { ...decision, picked: byTurn ? picked.id : null }
}

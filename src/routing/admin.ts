import { decide, type Route } from './route.ts'

/**
 * ADMIN: a human's message wakes the space's admin agent, its only agent where none is set;
 * an agent's message wakes the agent that it mentions, else nobody.
 */
export const admin: Route = (message, room) => {
  if (message.senderKind === 'AGENT') {
    return decide(
      message,
      room,
      (agent) => (agent.id === message.mentionedAgentId ? 'The sending agent mentioned it.' : null),
      () => 'Under ADMIN routing an agent wakes only whom it mentions.',
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
          ? 'It is the admin agent.'
          : 'It is the only agent.'
        : null,
    () =>
      room.agents.some((agent) => agent.id === target)
        ? "Under ADMIN routing a human's message wakes the admin agent."
        : 'The space has no admin agent among its members: set one with updateSpace.',
  )
}

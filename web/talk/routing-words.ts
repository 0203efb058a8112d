import type { Space } from '../../client/index.ts'

/** Which agents a message wakes, for each routing. */
export const ROUTING_WORDS: Record<Space['routing'], string> = {
  BROADCAST: 'In this space, every message wakes every agent.',
  ADMIN: 'In this space, messages wake the admin agent, which involves the others.',
  MENTION_CHAIN: 'In this space, messages wake the agent whose turn it is.',
}

const NARROWED = 'In this space, every message wakes every agent, unless it mentions some: then it wakes only those.'
const BY_MENTION = 'In this space, an agent’s message wakes only the agent that it mentions.'
const AFTER_RUN =
  'In this space, an agent’s message wakes nobody until its run ends: then it wakes the agent it mentions.'
const ONE_AT_A_TIME =
  'In this space, a message wakes one agent: the one that it mentions, or else the one whose turn it is.'

/** The words that the console uses for recorded reasons that contain one of these parts. */
const REASONS: readonly (readonly [part: string, words: string])[] = [
  ['BROADCAST wakes every agent', ROUTING_WORDS.BROADCAST],
  ['Another agent was mentioned, and in this space', NARROWED],
  ["Under ADMIN routing an agent's message", BY_MENTION],
  ["Under ADMIN routing a human's message", 'In this space, a person’s message wakes only the admin agent.'],
  ['This agent is the admin agent.', 'In this space, a person’s message wakes this agent, which is the admin agent.'],
  ["Under MENTION_CHAIN routing an agent's message", AFTER_RUN],
  ["this agent's turn", `${ONE_AT_A_TIME} It was this agent’s turn.`],
  ['Another agent was picked.', `${ONE_AT_A_TIME} That was another agent.`],
]

/** Returns a recorded reason in words. */
export const wordsOfReason = (reason: string): string => REASONS.find(([part]) => reason.includes(part))?.[1] ?? reason

interface RoutedMessage {
  mentions: readonly { id: string }[]
  sender: { kind: string }
}

/** The routing of the space. `mentionNarrows` is absent if it is not known. */
export interface SpaceRule {
  routing: Space['routing']
  mentionNarrows?: boolean
}

/** Returns the rule by which a message wakes an agent or does not, for viewers who may not see the recorded reason. */
export function ruleFor(agentId: string, { mentions, sender }: RoutedMessage, space: SpaceRule): string {
  if (mentions.some(({ id }) => id === agentId)) return 'This agent was mentioned.'
  const { routing, mentionNarrows = false } = space
  if (sender.kind === 'AGENT' && routing !== 'BROADCAST') return routing === 'ADMIN' ? BY_MENTION : AFTER_RUN
  return routing === 'BROADCAST' && mentionNarrows ? NARROWED : ROUTING_WORDS[routing]
}

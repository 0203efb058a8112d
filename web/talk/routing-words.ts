import type { Space } from '../../client/index.ts'

/** Which agents a message wakes, by routing. */
export const ROUTING_WORDS: Record<Space['routing'], string> = {
  BROADCAST: 'In this space, every message wakes every agent.',
  ADMIN: 'In this space, messages wake the admin agent, which involves the others.',
  MENTION_CHAIN: 'In this space, messages wake the agent whose turn it is.',
}

/** Returns a recorded reason in words. The rule of BROADCAST has the same words everywhere in the console. */
export const wordsOfReason = (reason: string): string =>
  reason.startsWith('BROADCAST wakes every agent') ? ROUTING_WORDS.BROADCAST : reason

import type { JsonObject } from '../lib/json.ts'
import { cut, nameIn } from '../lib/json.ts'

/** A message that mentions an agent, as routing sees it. */
export interface Mentioning {
  text: string
  senderKind: 'HUMAN' | 'AGENT'
  mentioned: { id: string; name: string } | null
}

const LONGEST_REASON = 200

/**
 * The payload of a run's trigger for a message with a mention: for the mentioned agent, its reason;
 * for another agent that routing wakes, the agent to which the message was addressed. Null if the
 * message mentions nobody.
 */
export function mentionPayload({ text, senderKind, mentioned }: Mentioning, agentId: string): JsonObject | null {
  if (mentioned === null) return null
  const trigger = { type: 'space_message', senderType: senderKind === 'AGENT' ? 'agent' : 'human' }
  if (mentioned.id === agentId) return { ...trigger, mentionReason: cut(text, LONGEST_REASON) }
  return { ...trigger, addressee: { id: mentioned.id, name: mentioned.name } }
}

/** The mention in a prompt: words that follow the trigger, and quoted data on its own line. */
export function mentionInPrompt(payload: unknown): { inWords: string; quoted: string | null } {
  const { mentionReason, addressee } = (payload ?? {}) as {
    mentionReason?: string
    addressee?: Mentioning['mentioned']
  }
  if (mentionReason !== undefined) return { inWords: ', which mentions you:', quoted: JSON.stringify(payload) }
  if (addressee == null) return { inWords: '', quoted: null }
  return { inWords: `, addressed to ${nameIn(addressee.name)} (id: ${addressee.id})`, quoted: null }
}

import type { JsonObject } from '../lib/json.ts'
import { cut, nameIn } from '../lib/json.ts'

/** A message that may mention somebody. */
export interface Mentioning {
  text: string
  senderKind: 'HUMAN' | 'AGENT'
  mentioned: readonly { id: string; name: string }[]
}

export const LONGEST_REASON = 200

/**
 * Returns the data about mentions in the payload of a run's trigger. For a mentioned agent, this is the reason of the
 * mention. For any other agent, it is the first entity that the message mentions. Returns null if the message mentions
 * nobody.
 */
export function mentionPayload({ text, senderKind, mentioned }: Mentioning, agentId: string): JsonObject | null {
  const [first] = mentioned
  if (first === undefined) return null
  const trigger = { type: 'space_message', senderType: senderKind === 'AGENT' ? 'agent' : 'human' }
  if (mentioned.some(({ id }) => id === agentId)) return { ...trigger, mentionReason: cut(text, LONGEST_REASON) }
  return { ...trigger, addressee: { id: first.id, name: first.name } }
}

/** Describes a mention for a prompt: returns a phrase to append to the trigger, and quoted data for a separate line. */
export function mentionInPrompt(payload: unknown): { inWords: string; quoted: string | null } {
  const { mentionReason, addressee } = (payload ?? {}) as {
    mentionReason?: string
    addressee?: Mentioning['mentioned'][number] | null
  }
  if (mentionReason !== undefined) return { inWords: ', which mentions you:', quoted: JSON.stringify(payload) }
  if (addressee == null) return { inWords: '', quoted: null }
  return { inWords: `, addressed to ${nameIn(addressee.name)} (id: ${addressee.id})`, quoted: null }
}

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
 * Returns what the payload of a run's trigger contains about mentions: for a mentioned agent, the reason; for
 * another agent that routing wakes, the first entity that the message mentions. Returns null if the message mentions
 * nobody.
 */
export function mentionPayload({ text, senderKind, mentioned }: Mentioning, agentId: string): JsonObject | null {
  const [first] = mentioned
  if (first === undefined) return null
  const trigger = { type: 'space_message', senderType: senderKind === 'AGENT' ? 'agent' : 'human' }
  if (mentioned.some(({ id }) => id === agentId)) return { ...trigger, mentionReason: cut(text, LONGEST_REASON) }
  return { ...trigger, addressee: { id: first.id, name: first.name } }
}

/** Returns a mention as text for a prompt: a phrase that follows the trigger, and quoted data on a separate line. */
export function mentionInPrompt(payload: unknown): { inWords: string; quoted: string | null } {
  const { mentionReason, addressee } = (payload ?? {}) as {
    mentionReason?: string
    addressee?: Mentioning['mentioned'][number] | null
  }
  if (mentionReason !== undefined) return { inWords: ', which mentions you:', quoted: JSON.stringify(payload) }
  if (addressee == null) return { inWords: '', quoted: null }
  return { inWords: `, addressed to ${nameIn(addressee.name)} (id: ${addressee.id})`, quoted: null }
}

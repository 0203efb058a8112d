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
 * What the trigger of a run holds besides the message, where that mentions somebody: for the one mentioned, why; for whom
 * the space's routing wakes instead, to whom it was addressed. Null where it mentions nobody.
 */
export function mentionPayload({ text, senderKind, mentioned }: Mentioning, agentId: string): JsonObject | null {
  if (mentioned === null) return null
  const trigger = { type: 'space_message', senderType: senderKind === 'AGENT' ? 'agent' : 'human' }
  if (mentioned.id === agentId) return { ...trigger, mentionReason: cut(text, LONGEST_REASON) }
  return { ...trigger, addressee: { id: mentioned.id, name: mentioned.name } }
}

/** How a prompt says it: behind what woke the agent, and as quoted data on a line of its own. */
export function mentionInPrompt(payload: unknown): { inWords: string; quoted: string | null } {
  const { mentionReason, addressee } = (payload ?? {}) as {
    mentionReason?: string
    addressee?: Mentioning['mentioned']
  }
  if (mentionReason !== undefined) return { inWords: ', which mentions you:', quoted: JSON.stringify(payload) }
  if (addressee == null) return { inWords: '', quoted: null }
  return { inWords: `, addressed to ${nameIn(addressee.name)} (id: ${addressee.id})`, quoted: null }
}

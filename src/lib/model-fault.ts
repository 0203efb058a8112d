/** The kind of a failure of a model's provider. Members of a space see `adviceOn` it; admins see the provider's own message. */
export type ModelFault = (typeof MODEL_FAULTS)[number]

export const MODEL_FAULTS = [
  'KEY',
  'QUOTA',
  'RATE',
  'MODEL',
  'TOO_LONG',
  'REFUSED',
  'FILTERED',
  'UNAVAILABLE',
  'BROKEN_OFF',
  'LIMIT',
] as const

const ADVICE: Record<ModelFault, string> = {
  KEY: "The model's provider did not accept this server's key. An admin has to correct the key.",
  QUOTA: "The account at the model's provider has no quota left. An admin has to raise it or choose another model.",
  RATE: "The model's provider received too many requests. Try again in a minute.",
  MODEL: "The model's provider does not offer this model. An admin has to choose another one.",
  TOO_LONG: 'The conversation is too long for the model. Continue in a new space, or ask an admin for another model.',
  REFUSED: "The model's provider refused the request. An admin can see the reason on the run.",
  FILTERED: "The provider's content filter stopped the model. Rephrase the message and try again.",
  UNAVAILABLE: "The model's provider is not available. Try again later.",
  BROKEN_OFF: "The model's answer broke off. Try again.",
  LIMIT: 'The model reached its output limit. Ask for a shorter answer, or ask an admin to raise the limit.',
}

/** Returns what failed and how to proceed, for people who may not see the provider's message. */
export function adviceOn(fault: ModelFault): string {
  return ADVICE[fault]
}

/**
 * The kind of a failure of a model's provider. Members of a space see the advice of `adviceOn`. Admins see the
 * provider's own message.
 */
export type ModelFault = (typeof MODEL_FAULTS)[number]

export const MODEL_FAULTS = [
  'NOT_SET_UP',
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
  'CONFIDENTIAL',
  'UNCONFIRMED',
] as const

const ADVICE: Record<ModelFault, string> = {
  NOT_SET_UP:
    "This server has no provider, or no key, for the agent's model. An admin has to add it in the console under Models.",
  KEY: "The model's provider did not accept this server's key. An admin has to correct the key.",
  QUOTA: "The account at the model's provider has no quota left. An admin has to raise it or choose another model.",
  RATE: "The model's provider received too many requests. Try again in a minute.",
  MODEL: "The model's provider does not offer this model. An admin has to choose another one.",
  TOO_LONG: 'The conversation is too long for the model. Continue in a new space, or ask an admin for another model.',
  REFUSED: "The model's provider refused the request. An admin can see the reason on the run.",
  FILTERED: "The provider's content filter stopped the model. Rephrase the message and try again.",
  UNAVAILABLE: "The model's provider is not available. Try again later.",
  BROKEN_OFF: "The model's stream ended in the middle of its answer. Try again.",
  LIMIT: 'The model reached its output limit. Ask for a shorter answer, or ask an admin to raise the limit.',
  CONFIDENTIAL:
    'The agent runs on another server, which may not receive messages from a confidential space. An admin can allow it.',
  UNCONFIRMED: 'The card of the agent on another server has changed. An admin has to review and confirm it.',
}

/** A model cannot be called, because its provider is not configured or has no key. The message is for admins. */
export class ModelNotSetUpError extends Error {
  override readonly name = 'ModelNotSetUpError'
}

/** An agent on another server failed, or could not be reached. The message is for admins, and contains no secret. */
export class RemoteAgentError extends Error {
  override readonly name = 'RemoteAgentError'
  readonly fault: ModelFault
  /** Whether a further attempt to read the agent's answer may succeed. */
  readonly isRetryable: boolean
  constructor(message: string, { fault, isRetryable = false }: { fault: ModelFault; isRetryable?: boolean }) {
    super(message)
    this.fault = fault
    this.isRetryable = isRetryable
  }
}

/** Returns, for people who may not see the provider's message, what failed and what they can do. */
export function adviceOn(fault: ModelFault): string {
  return ADVICE[fault]
}

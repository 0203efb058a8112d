import { randomBytes } from 'node:crypto'
import type { SecretBox } from '../platform/secret-box.ts'

const SECRET_PREFIX = 'whsec_'
const SECRET_BYTES = 32

/** Creates a secret in the format of Standard Webhooks. */
export function newWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

const contextOf = (agentId: string) => `notify:${agentId}`

/**
 * Returns the columns to set for a `notifyUrl`, and its new secret. If the URL is undefined, it is unchanged, and there
 * are no columns to set.
 */
export function notifyColumns(agentId: string, url: string | null | undefined, secretBox: SecretBox) {
  if (url === undefined) return { columns: {}, secret: null }
  if (url === null) return { columns: { notifyUrl: null, notifySecretSealed: null }, secret: null }
  const secret = newWebhookSecret()
  return { columns: { notifyUrl: url, notifySecretSealed: secretBox.seal(secret, contextOf(agentId)) }, secret }
}

/** Decrypts the secret that signs an agent's notifications. @throws SealBrokenError */
export function openNotifySecret(agentId: string, sealed: string, secretBox: SecretBox): string {
  return secretBox.open(sealed, contextOf(agentId))
}

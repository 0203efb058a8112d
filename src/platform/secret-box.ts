import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/**
 * Encrypts values that must not be readable in the database, such as headers of tools and MCP servers, and webhook
 * secrets.
 */
export interface SecretBox {
  /**
   * Encrypts and authenticates a text. The result differs each time. `context` identifies the object to which the
   * text belongs, such as the id of a row.
   */
  seal(text: string, context?: string): string
  /**
   * Decrypts a text that was encrypted with the same key and context.
   * @throws SealBrokenError for any other text
   */
  open(sealed: string, context?: string): string
  /** Returns an HMAC of a text in base64url. Its key is derived from the same secret as the encryption key. */
  sign(text: string): string
  /** Whether `sign` created this signature of the text, with the current or the previous key. */
  isSigned(text: string, signature: string): boolean
}

/** Thrown if a value was encrypted with another key or context, or was changed afterwards. */
export class SealBrokenError extends Error {
  constructor() {
    super('A stored secret cannot be decrypted: it was encrypted with a different PARLEY_SECRET_KEY.')
    this.name = 'SealBrokenError'
  }
}

/**
 * The version of the format `v1.<nonce><tag><ciphertext>` (in base64url). A later version can use another algorithm.
 */
const VERSION = 'v1'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Creates a box whose key is derived from a string by HKDF-SHA-256. The string must be hard to guess, because HKDF does
 * not strengthen a weak string. (Generated keys have 32 random bytes; the log warns if a configured key has fewer than
 * 32 characters.) With random nonces, AES-256-GCM is safe for four billion encryptions per key (NIST SP 800-38D, 8.3).
 * `keyBefore` is only used for decryption, during a key rotation.
 */
export function createSecretBox(secretKey: string, keyBefore: string | null = null): SecretBox {
  if (secretKey === '') throw new Error('The secret key is empty.')
  const key = keyOf(secretKey)
  const keys = keyBefore === null ? [key] : [key, keyOf(keyBefore)]

  return {
    seal(text, context = '') {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
      const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `${VERSION}.${Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString('base64url')}`
    },

    open(sealed, context = '') {
      const [version, payload = ''] = sealed.split('.')
      const bytes = Buffer.from(payload, 'base64url')
      if (version !== VERSION || bytes.length < NONCE_BYTES + TAG_BYTES) throw new SealBrokenError()
      for (const one of keys) {
        const text = opened(bytes, one, context)
        if (text !== null) return text
      }
      throw new SealBrokenError()
    },

    sign: (text) => signatureOf(text, secretKey),
    isSigned: (text, signature) =>
      [secretKey, ...(keyBefore === null ? [] : [keyBefore])].some((one) => isEqual(signature, signatureOf(text, one))),
  }
}

const signatureOf = (text: string, secretKey: string) =>
  createHmac('sha256', Buffer.from(hkdfSync('sha256', secretKey, 'parley', 'signatures v1', 32)))
    .update(text)
    .digest('base64url')

const isEqual = (one: string, other: string) => {
  const [first, second] = [Buffer.from(one), Buffer.from(other)]
  return first.length === second.length && timingSafeEqual(first, second)
}

const keyOf = (secretKey: string) => Buffer.from(hkdfSync('sha256', secretKey, 'parley', 'secret-box v1', 32))

/** Returns the decrypted text; null if the value was encrypted with another key or context. */
function opened(bytes: Buffer, key: Buffer, context: string): string | null {
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(context)).setAuthTag(tag)
    const text = [decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]
    return Buffer.concat(text).toString('utf8')
  } catch {
    return null
  }
}

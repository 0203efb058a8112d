import { createECDH } from 'node:crypto'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { keepPushKeys } from '../stores/push-store.ts'

/** The key pair with which push services identify this server (VAPID, RFC 8292). Both keys are in base64url. */
export interface PushKeyPair {
  publicKey: string
  privateKey: string
}

const PRIVATE_KEY_BYTES = 32
const contextOf = (publicKey: string) => `push:${publicKey}`

/**
 * Returns the key pair, which is generated at the first start. Processes that start at the same time use the same pair.
 * The private key is stored encrypted. If it cannot be decrypted, returns null and does not generate a new pair,
 * because each browser's subscription works only with the pair for which it was created.
 */
export async function openPushKeys({
  db,
  secretBox,
  logger,
}: Pick<Platform, 'db' | 'secretBox' | 'logger'>): Promise<PushKeyPair | null> {
  const stored = await db.prisma.pushKeys.findUnique({ where: { id: 1 } })
  const { publicKey, privateSealed } = stored ?? (await keepPushKeys(db.prisma, generate(secretBox)))
  try {
    return { publicKey, privateKey: secretBox.open(privateSealed, contextOf(publicKey)) }
  } catch (error) {
    logger.error(
      { error: messageOf(error) },
      'could not decrypt the push key; no push messages are sent. Set the same PARLEY_SECRET_KEY for every process and every start',
    )
    return null
  }
}

function generate(secretBox: Platform['secretBox']): { publicKey: string; privateSealed: string } {
  const pair = createECDH('prime256v1')
  const publicKey = pair.generateKeys().toString('base64url')
  // `getPrivateKey` omits leading zeros, so they are added again.
  const privateKey = Buffer.concat([Buffer.alloc(PRIVATE_KEY_BYTES), pair.getPrivateKey()]).subarray(-PRIVATE_KEY_BYTES)
  return { publicKey, privateSealed: secretBox.seal(privateKey.toString('base64url'), contextOf(publicKey)) }
}

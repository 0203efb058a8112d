import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isLoopback } from '../lib/loopback.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { noteDeed } from '../stores/audit-store.ts'
import { issue } from './tokens.ts'

/**
 * A link that a server without people prints at startup. The operator can sign in with it once instead of copying the
 * admin token. The process keeps only a hash of the link's code, in memory.
 */
export interface StartLink {
  /**
   * Returns the path of a new link, which replaces an earlier one. Returns null if the server listens on an address
   * that is not loopback, or if a human was ever created.
   */
  create(): Promise<string | null>
  /**
   * Returns an admin token that expires after 12 hours. Returns null if the code is unknown, used or older than 15
   * minutes, or if a human has been created.
   */
  redeem(code: string): Promise<string | null>
}

const CODE_BYTES = 32
const VALID_MS = 15 * 60_000
const SESSION_MS = 12 * 3_600_000
const LABEL = 'start link'

const sha256 = (text: string) => createHash('sha256').update(text).digest()

export function createStartLink({ db, clock, config }: Pick<Platform, 'db' | 'clock' | 'config'>): StartLink {
  let open: { hash: Buffer; expiresAtMs: number } | null = null

  return {
    async create() {
      open = null
      if (config.role === 'worker' || !isLoopback(config.host) || (await hasHumans(db.prisma))) return null
      const code = randomBytes(CODE_BYTES).toString('base64url')
      open = { hash: sha256(code), expiresAtMs: clock.now() + VALID_MS }
      return `/sign-in/${code}`
    },
    async redeem(code) {
      const link = open
      if (link === null || !timingSafeEqual(sha256(code), link.hash)) return null
      // This line precedes all asynchronous work, so only one of two concurrent requests can succeed.
      open = null
      const now = clock.now()
      if (now >= link.expiresAtMs) return null
      try {
        return await db.transaction((tx) => issueToken(tx, now))
      } catch (error) {
        // No token was issued, so the link becomes valid again, unless a newer link has replaced it.
        open ??= link
        throw error
      }
    },
  }
}

/** Returns the secret of a new admin token; null if a human has been created. */
async function issueToken(tx: Tx, now: number): Promise<string | null> {
  if (await hasHumans(tx)) return null
  const expiresAt = new Date(now + SESSION_MS)
  const granted = { scope: 'ADMIN' as const, label: LABEL, expiresAt, createdAt: new Date(now) }
  const { accessToken, secret } = await issue(tx, granted)
  const deed = { actorId: null, serviceName: null, action: 'redeemStartLink', detail: {} }
  await noteDeed(tx, { ...deed, targetId: accessToken.id })
  return secret
}

/** Whether a human was ever created, including humans who were erased. */
async function hasHumans(tx: Tx): Promise<boolean> {
  return (await tx.entity.count({ where: { kind: 'HUMAN' } })) > 0
}

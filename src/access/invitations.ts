import { createHash, randomBytes } from 'node:crypto'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { noteDeed } from '../stores/audit-store.ts'
import { deleteInvitations, insertInvitation, redeemInvitation } from '../stores/token-store.ts'
import { issue } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/** Invitations: links with which people sign in for the first time. */
export interface Invitations {
  /**
   * Admins only. The path contains the code, which the server does not store (only its hash). @throws ForbiddenError,
   * NotFoundError, BadInputError
   */
  create(
    viewer: Viewer,
    input: { humanId: string; expiresInSeconds: number },
  ): Promise<{ path: string; expiresAt: Date }>
  /** Redeems a code: returns a new bearer token for its human, or null if the code is unknown, used or expired. */
  redeem(code: string): Promise<string | null>
}

const CODE_BYTES = 32
/** Skips the lookup for a string that cannot be a code. */
const IS_CODE = /^[\w-]{43}$/
const LONGEST_SECONDS = 30 * 86_400

const hashOf = (code: string) => createHash('sha256').update(code).digest('hex')

export function createInvitations({ db, clock }: Pick<Platform, 'db' | 'clock'>): Invitations {
  return {
    async create(viewer, { humanId, expiresInSeconds }) {
      requireAdmin(viewer, 'invite people')
      const seconds = checkInteger(expiresInSeconds, 1, LONGEST_SECONDS, 'input.expiresInSeconds')
      const code = randomBytes(CODE_BYTES).toString('base64url')
      const expiresAt = new Date(clock.now() + seconds * 1000)
      await db.transaction(async (tx) => {
        const human = await tx.$queryRaw<unknown[]>`
          SELECT 1 FROM "Entity" WHERE id = ${prefixOf(humanId) === 'hum' ? humanId : ''} AND "goneAt" IS NULL FOR SHARE`
        if (human.length === 0) throw new NotFoundError('There is no such human.')
        await insertInvitation(tx, { hash: hashOf(code), humanId, expiresAt })
        await deleteInvitations(tx, { expiresAt: { lte: new Date(clock.now()) } })
      })
      return { path: `/invitations/${code}`, expiresAt }
    },
    async redeem(code) {
      if (!IS_CODE.test(code)) return null
      const now = new Date(clock.now())
      return db.transaction(async (tx) => {
        const humanId = await redeemInvitation(tx, hashOf(code), now)
        if (humanId === null) return null
        const { accessToken, secret } = await issue(tx, { scope: 'HUMAN', humanId, createdAt: now })
        const deed = { actorId: humanId, serviceName: null, action: 'redeemInvitation', detail: { humanId } }
        await noteDeed(tx, { ...deed, targetId: accessToken.id })
        return secret
      })
    },
  }
}

import { createHash, randomBytes } from 'node:crypto'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { noteDeed } from '../platform/record.ts'
import { issue } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/** Ways for people to sign in for the first time. */
export interface Invitations {
  /** Admins only. The URL holds the code, which is kept nowhere. @throws ForbiddenError, NotFoundError, BadInputError */
  create(
    viewer: Viewer,
    input: { humanId: string; expiresInSeconds: number },
  ): Promise<{ url: string; expiresAt: Date }>
  /** A new bearer token of the human that the code is for; null where there is no such code, any more. */
  redeem(code: string): Promise<string | null>
}

export interface InvitationsHooks {
  /** Where this server is reached, without a path and without a slash at the end. */
  baseUrl(): string
}

const CODE_BYTES = 32
/** What is none is not looked for. */
const IS_CODE = /^[\w-]{43}$/
const LONGEST_SECONDS = 30 * 86_400

const hashOf = (code: string) => createHash('sha256').update(code).digest('hex')

export function createInvitations({ db, clock }: Pick<Platform, 'db' | 'clock'>, hooks: InvitationsHooks): Invitations {
  return {
    async create(viewer, { humanId, expiresInSeconds }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can invite people.')
      const seconds = checkInteger(expiresInSeconds, 1, LONGEST_SECONDS, 'input.expiresInSeconds')
      const code = randomBytes(CODE_BYTES).toString('base64url')
      const expiresAt = new Date(clock.now() + seconds * 1000)
      await db.transaction(async (tx) => {
        const human = await tx.$queryRaw<unknown[]>`
          SELECT 1 FROM "Entity" WHERE id = ${prefixOf(humanId) === 'hum' ? humanId : ''} AND "goneAt" IS NULL FOR SHARE`
        if (human.length === 0) throw new NotFoundError('There is no such human.')
        await tx.invitation.create({ data: { hash: hashOf(code), humanId, expiresAt } })
        await tx.invitation.deleteMany({ where: { expiresAt: { lte: new Date(clock.now()) } } })
      })
      return { url: `${hooks.baseUrl()}/invitations/${code}`, expiresAt }
    },
    async redeem(code) {
      if (!IS_CODE.test(code)) return null
      const now = new Date(clock.now())
      return db.transaction(async (tx) => {
        const [found] = await tx.$queryRaw<{ humanId: string }[]>`
          DELETE FROM "Invitation" WHERE hash = ${hashOf(code)} AND "expiresAt" > ${now} RETURNING "humanId"`
        if (found === undefined) return null
        const { humanId } = found
        const { accessToken, secret } = await issue(tx, { scope: 'HUMAN', humanId, createdAt: now })
        const deed = { actorId: humanId, serviceName: null, action: 'redeemInvitation', detail: { humanId } }
        await noteDeed(tx, { ...deed, targetId: accessToken.id })
        return secret
      })
    },
  }
}

import { createHash, randomBytes } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { noteDeed } from '../stores/audit-store.ts'
import { deleteMailCodes } from '../stores/mail-code-store.ts'
import { deleteMailInvitation, deleteSignInInvitations } from '../stores/mail-invitation-store.ts'
import { deleteInvitations, insertInvitation, redeemInvitation } from '../stores/token-store.ts'
import type { OpenSessionInput, SessionCookie, Sessions } from './sessions.ts'
import { issue } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/** An invitation that has not been used and has not expired. */
export interface OpenInvitation {
  id: string
  /**
   * The human whom the link signs in; null if the invitation was sent to an email address that does not belong to a
   * human yet.
   */
  humanId: string | null
  /** The address to which the link was emailed; null if an admin gives the link to the person. */
  email: string | null
  /** The spaces that the person joins, provided that the inviter may still add people to them. */
  spaceIds: string[]
  /** The id of the human or access token that created the invitation, or of the operator; null if unknown. */
  inviterId: string | null
  createdAt: Date
  expiresAt: Date
}

/** The information on an invitation's page, before the person accepts the invitation. */
export interface DescribedInvitation {
  /** The name of the person whom the link signs in. */
  name: string
  /** The name of the person who created the invitation; null for the operator or an access token. */
  inviter: string | null
  /** The names of some spaces of which the person is already a member. */
  spaces: string[]
}

/**
 * Invitations are links with which people sign in for the first time. Admins can also see and revoke emailed
 * invitations.
 */
export interface Invitations {
  /**
   * Creates an invitation. Only admins may do this. The returned path contains the code. The server only stores the
   * hash of the code.
   * @throws ForbiddenError, NotFoundError, BadInputError
   */
  create(
    viewer: Viewer,
    input: { humanId: string; expiresInSeconds: number },
  ): Promise<{ path: string; expiresAt: Date }>
  /**
   * Describes an invitation to a person who has its code, without redeeming it. Returns null if the code is unknown,
   * used or expired.
   */
  describe(code: string): Promise<DescribedInvitation | null>
  /**
   * Redeems a code for a new bearer token of its human. Returns null if the code is unknown, used or expired. Ends the
   * human's other invitations, except emailed ones that add the human to a space.
   */
  redeem(code: string): Promise<string | null>
  /** Like `redeem`, but opens a session of the human instead of creating a token. */
  accept(code: string, browser: OpenSessionInput): Promise<SessionCookie | null>
  /** Returns a page of the open invitations, newest first; null if the viewer is not an admin. */
  page(viewer: Viewer, request: PageRequest): Promise<Page<OpenInvitation> | null>
  /** Returns open invitations in the order of the ids; null for any other id, and for viewers who are not admins. */
  getMany(viewer: Viewer, ids: readonly string[]): Promise<(OpenInvitation | null)[]>
  /**
   * Revokes an invitation, whose link then stops working. Only admins may do this.
   * @throws ForbiddenError, NotFoundError
   */
  revoke(viewer: Viewer, input: { id: string }): Promise<{ revokedId: string }>
}

const CODE_BYTES = 32
/** The format of a code. Other strings need no lookup. */
const IS_CODE = /^[\w-]{43}$/
const LONGEST_SECONDS = 30 * 86_400
const MOST_DESCRIBED_SPACES = 5

const hashOf = (code: string) => createHash('sha256').update(code).digest('hex')

/** Selects the invitations that have not expired. */
const selectOpenSql = (now: Date) => Prisma.sql`
  SELECT i.id, i."humanId", NULL AS email, ARRAY[]::text[] AS "spaceIds", i."inviterId", i."createdAt", i."expiresAt"
  FROM "Invitation" i WHERE i."expiresAt" > ${now}
  UNION ALL
  SELECT m.id, e.id, m.email, m."spaceIds", m."inviterId", m."createdAt", m."expiresAt"
  FROM "MailInvitation" m LEFT JOIN "Entity" e ON lower(e.email) = lower(m.email) AND e."goneAt" IS NULL
  WHERE m."expiresAt" > ${now}`

export function createInvitations(
  { db, clock }: Pick<Platform, 'db' | 'clock'>,
  sessions: Pick<Sessions, 'insertForHuman' | 'publishEnded'>,
): Invitations {
  async function getMany(viewer: Viewer, ids: readonly string[]): Promise<(OpenInvitation | null)[]> {
    if (!isAdmin(viewer)) return ids.map(() => null)
    const rows = await db.query<OpenInvitation>(Prisma.sql`
      SELECT * FROM (${selectOpenSql(new Date(clock.now()))}) open WHERE id = ANY(${wellFormedIds(ids)}::text[])`)
    return inOrderOf(ids, rows)
  }

  /**
   * Redeems a code in a transaction. `grant` gives the human access, and returns the result and the object for the
   * audit log's entry. Returns null if the code is unknown, used or expired.
   */
  async function use<Granted>(
    code: string,
    grant: (tx: Tx, humanId: string, now: Date) => Promise<{ granted: Granted; targetId: string }>,
  ): Promise<Granted | null> {
    if (!IS_CODE.test(code)) return null
    const now = new Date(clock.now())
    return db.transaction(async (tx) => {
      const humanId = await redeemInvitation(tx, hashOf(code), now)
      if (humanId === null) return null
      await deleteSignInInvitations(tx, humanId)
      const { granted, targetId } = await grant(tx, humanId, now)
      const deed = { actorId: humanId, serviceName: null, action: 'redeemInvitation', detail: { humanId } }
      await noteDeed(tx, { ...deed, targetId })
      return granted
    })
  }

  return {
    async create(viewer, { humanId, expiresInSeconds }) {
      requireAdmin(viewer, 'invite people')
      const seconds = checkInteger(expiresInSeconds, 1, LONGEST_SECONDS, 'input.expiresInSeconds')
      const code = randomBytes(CODE_BYTES).toString('base64url')
      const createdAt = new Date(clock.now())
      const expiresAt = new Date(createdAt.getTime() + seconds * 1000)
      await db.transaction(async (tx) => {
        const human = await tx.$queryRaw<unknown[]>`
          SELECT 1 FROM "Entity" WHERE id = ${prefixOf(humanId) === 'hum' ? humanId : ''} AND "goneAt" IS NULL FOR SHARE`
        if (human.length === 0) throw new NotFoundError('There is no such human.')
        await insertInvitation(tx, {
          id: newId('inv'),
          hash: hashOf(code),
          humanId,
          inviterId: viewer.id,
          createdAt,
          expiresAt,
        })
        await deleteInvitations(tx, { expiresAt: { lte: createdAt } })
      })
      return { path: `/invitations/${code}`, expiresAt }
    },
    async describe(code) {
      if (!IS_CODE.test(code)) return null
      const [found] = await db.query<DescribedInvitation>(Prisma.sql`
        SELECT e.name, inviter.name AS inviter, ARRAY(
          SELECT s.name FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId"
          WHERE m."entityId" = e.id AND s."deletedAt" IS NULL ORDER BY s.id DESC LIMIT ${MOST_DESCRIBED_SPACES}) AS spaces
        FROM "Invitation" i JOIN "Entity" e ON e.id = i."humanId" AND e."goneAt" IS NULL
        LEFT JOIN "Entity" inviter ON inviter.id = i."inviterId"
        WHERE i.hash = ${hashOf(code)} AND i."expiresAt" > ${new Date(clock.now())}`)
      return found ?? null
    },
    redeem: (code) =>
      use(code, async (tx, humanId, createdAt) => {
        const { accessToken, secret } = await issue(tx, { scope: 'HUMAN', humanId, createdAt })
        return { granted: secret, targetId: accessToken.id }
      }),
    async accept(code, browser) {
      const opened = await use(code, async (tx, humanId) => {
        const granted = await sessions.insertForHuman(tx, { humanId, by: 'invitation', ...browser })
        return { granted, targetId: humanId }
      })
      if (opened === null) return null
      await sessions.publishEnded(opened.endedIds)
      return opened.cookie
    },
    getMany,
    async page(viewer, request) {
      if (!isAdmin(viewer)) return null
      const source = Prisma.sql`SELECT id FROM (${selectOpenSql(new Date(clock.now()))}) open`
      return fetchPage(db.prisma, { source, request }, (ids) => getMany(viewer, ids))
    },
    async revoke(viewer, { id }) {
      requireAdmin(viewer, 'revoke invitations')
      if (prefixOf(id) !== 'inv') throw new NotFoundError(NO_SUCH_INVITATION)
      await db.transaction(async (tx) => {
        const isRevoked = (await deleteInvitations(tx, { id })) > 0 || (await deleteMailInvitation(tx, id))
        if (!isRevoked) throw new NotFoundError(NO_SUCH_INVITATION)
        await deleteMailCodes(tx, { invitationId: id })
      })
      return { revokedId: id }
    },
  }
}

const NO_SUCH_INVITATION = 'There is no such open invitation: it was used, revoked, or has expired.'

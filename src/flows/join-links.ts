import { createHash, randomBytes } from 'node:crypto'
import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { Prisma, type JoinLink as Row, type Space } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { ForbiddenError, LimitExceededError, messageOf, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { deleteJoinLinks, insertJoinLink, selectJoinLinksSql, useJoinLink } from '../stores/join-link-store.ts'
import { lockSpace, NO_SUCH_SPACE } from '../stores/space-store.ts'
import type { DecideCall } from './decide-call.ts'
import { joinSpace, MOST_MEMBERS } from './join-space.ts'

/** A join link with its path. The path contains the code. */
export type JoinLink = Omit<Row, 'hash' | 'codeSealed'> & { path: string }

export interface CreateJoinLinkInput {
  spaceId: string
  /** The maximum number of uses. If null, the link can be used any number of times until it expires. */
  maxUses?: number | null
  /** The lifetime of the link in seconds: 7 days by default, 30 days at most. */
  expiresInSeconds?: number | null
}

/** The space of a join link, as the holder of the link sees the space before joining. */
export interface JoinableSpace {
  name: string
  /** The name of the human who created the link; null if the creator was an admin who is not a human. */
  inviterName: string | null
  memberCount: number
  /** Null unless the viewer is a member. */
  spaceId: string | null
}

/**
 * Manages links with which people join a space without being invited. A link becomes invalid when its creator leaves
 * the space. All links of a space become invalid when somebody removes a human member.
 */
export interface JoinLinks {
  /**
   * Creates a link. Only human members and admins may do this. The code is stored encrypted, so that the link can be
   * shown again.
   * @throws BadInputError, ForbiddenError, NotFoundError; LimitExceededError above 20 links in a space
   */
  create(viewer: Viewer, input: CreateJoinLinkInput): Promise<JoinLink>
  /**
   * Revokes a link. Only admins and human members of the link's space may do this.
   * @throws ForbiddenError, NotFoundError
   */
  revoke(viewer: Viewer, input: { id: string }): Promise<{ revokedId: string }>
  /**
   * Describes the space of a link, without joining. Returns null if the link no longer works, or if the viewer is not a
   * human.
   */
  describe(viewer: Viewer, input: { code: string }): Promise<JoinableSpace | null>
  /**
   * Makes the viewer a member of the space. Marks earlier messages as read.
   * @throws ForbiddenError unless the viewer is a human; NotFoundError; ConflictError if the viewer is already a
   * member; LimitExceededError above 500 members
   */
  join(viewer: Viewer, input: { code: string }): Promise<Space>
  /** Returns the valid links of these spaces, newest first. Omits spaces in which the viewer may not create links. */
  ofSpaces(viewer: Viewer, spaceIds: readonly string[]): Promise<Map<string, JoinLink[]>>
  /** Returns the links with these ids, in this order, with null for each link that `ofSpaces` would not return. */
  getMany(viewer: Viewer, ids: readonly string[]): Promise<(JoinLink | null)[]>
}

interface JoinLinksParts {
  visibility: Pick<Visibility, 'spaces'>
  publisher: Pick<SpacePublisher, 'joined'>
  /** Called after a human joins, because the human may now be able to decide on calls that wait in the space. */
  decideCall: Pick<DecideCall, 'recheck'>
}

const MOST_LINKS_OF_SPACE = 20
const CODE_BYTES = 32
/** The format of a code. A string in any other format needs no lookup. */
const IS_CODE = /^[\w-]{43}$/
const DAY_SECONDS = 86_400
const NO_SUCH_LINK = 'There is no such join link.'
const USED_UP = 'The join link does not exist, was revoked or used up, or has expired. Ask for a new one.'

const hashOf = (code: string) => createHash('sha256').update(code).digest('hex')

/**
 * Whether a link has neither expired nor been used up. `useJoinLink` repeats this check, because several people can
 * join at the same time.
 */
const letsIn = ({ expiresAt, maxUses, uses }: Row, now: Date) => expiresAt > now && (maxUses === null || uses < maxUses)

export function createJoinLinks(platform: Platform, { visibility, publisher, decideCall }: JoinLinksParts): JoinLinks {
  const { db, clock, jobs, secretBox, logger } = platform

  const now = () => new Date(clock.now())

  /**
   * Returns the link, or null if its code cannot be decrypted because the key was changed without a rotation. A link
   * without its code cannot be displayed.
   */
  function linkOf({ hash, codeSealed, ...link }: Row): JoinLink | null {
    try {
      return { ...link, path: `/join/${secretBox.open(codeSealed, link.id)}` }
    } catch (error) {
      logger.warn({ joinLinkId: link.id, error: messageOf(error) }, 'could not decrypt the code of a join link')
      return null
    }
  }

  /** Returns the valid link with this code, or null if there is none. */
  async function find(tx: Pick<Tx, 'joinLink'>, code: string): Promise<Row | null> {
    if (!IS_CODE.test(code)) return null
    const link = await tx.joinLink.findUnique({ where: { hash: hashOf(code) } })
    return link === null || !letsIn(link, now()) || linkOf(link) === null ? null : link
  }

  async function readOf(viewer: Viewer, spaceIds: readonly string[]): Promise<JoinLink[]> {
    if (viewer.scope === 'SERVICE') return []
    const visible = await visibility.spaces(viewer, [...spaceIds])
    const rows = await db.query<Row>(selectJoinLinksSql([...visible], now()))
    return rows.map(linkOf).filter((link) => link !== null)
  }

  return {
    async create(viewer, { spaceId, maxUses, expiresInSeconds }) {
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service cannot create join links.')
      if (!(await visibility.spaces(viewer, [spaceId])).has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      const uses = maxUses == null ? null : checkInteger(maxUses, 1, MOST_MEMBERS, 'input.maxUses')
      const seconds = checkInteger(expiresInSeconds ?? 7 * DAY_SECONDS, 1, 30 * DAY_SECONDS, 'input.expiresInSeconds')
      const [id, code] = [newId('jln'), randomBytes(CODE_BYTES).toString('base64url')]
      const link: Row = {
        id,
        spaceId,
        hash: hashOf(code),
        codeSealed: secretBox.seal(code, id),
        createdById: viewer.scope === 'HUMAN' ? viewer.id : null,
        maxUses: uses,
        uses: 0,
        createdAt: now(),
        expiresAt: new Date(clock.now() + seconds * 1000),
      }
      await db.transaction(async (tx) => {
        await lockSpace(tx, spaceId)
        // The creator may have left before the space was locked.
        const isMember = (await tx.membership.count({ where: { spaceId, entityId: viewer.id } })) > 0
        if (!isAdmin(viewer) && !isMember) throw new NotFoundError(NO_SUCH_SPACE)
        const open = await tx.$queryRaw<Row[]>(selectJoinLinksSql([spaceId], now()))
        const unreadable = open.filter((row) => linkOf(row) === null).map((row) => row.id)
        await deleteJoinLinks(tx, { OR: [{ expiresAt: { lte: now() } }, { id: { in: unreadable } }] })
        if (open.length - unreadable.length >= MOST_LINKS_OF_SPACE)
          throw new LimitExceededError(`A space has at most ${MOST_LINKS_OF_SPACE} join links: revoke one first.`)
        await insertJoinLink(tx, link)
        // The id becomes the target of the audit entry.
        return { id }
      })
      const { hash, codeSealed, ...rest } = link
      return { ...rest, path: `/join/${code}` }
    },
    async revoke(viewer, { id }) {
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service cannot revoke join links.')
      const link = prefixOf(id) === 'jln' ? await db.prisma.joinLink.findUnique({ where: { id } }) : null
      const isVisible = link !== null && (await visibility.spaces(viewer, [link.spaceId])).has(link.spaceId)
      if (!isVisible) throw new NotFoundError(NO_SUCH_LINK)
      await db.transaction(async (tx) => {
        // Throws inside the transaction to roll it back. Otherwise the audit entry would remain.
        if ((await deleteJoinLinks(tx, { id })) === 0) throw new NotFoundError(NO_SUCH_LINK)
      })
      return { revokedId: id }
    },
    async describe(viewer, { code }) {
      const link = viewer.scope === 'HUMAN' ? await find(db.prisma, code) : null
      if (link === null) return null
      const [found] = await db.query<JoinableSpace>(Prisma.sql`
        SELECT s.name, (SELECT e.name FROM "Entity" e WHERE e.id = ${link.createdById}) AS "inviterName",
          count(m."entityId")::int AS "memberCount", max(s.id) FILTER (WHERE m."entityId" = ${viewer.id}) AS "spaceId"
        FROM "Space" s LEFT JOIN "Membership" m ON m."spaceId" = s.id
        WHERE s.id = ${link.spaceId} AND s."deletedAt" IS NULL GROUP BY s.id`)
      return found ?? null
    },
    async join(viewer, { code }) {
      if (viewer.scope !== 'HUMAN') throw new ForbiddenError('Only people can join a space with a link.')
      const { space, change } = await db.transaction(async (tx) => {
        const link = await find(tx, code)
        if (link === null) throw new NotFoundError(USED_UP)
        // Locks the space first, as does leaving a space.
        const joined = await joinSpace(tx, link.spaceId, viewer.id, clock.now())
        if (!(await useJoinLink(tx, link.id, now()))) throw new NotFoundError(USED_UP)
        return joined
      })
      await publisher.joined(space.id, viewer.id, change)
      jobs.withdraw(PUBLISH_CHANGE, change)
      await decideCall.recheck({ spaceId: space.id })
      return space
    },
    async ofSpaces(viewer, spaceIds) {
      return Map.groupBy(await readOf(viewer, spaceIds), ({ spaceId }) => spaceId)
    },
    async getMany(viewer, ids) {
      const where = { id: { in: wellFormedIds(ids) } }
      const rows = await db.prisma.joinLink.findMany({ where, select: { spaceId: true } })
      const spaceIds = [...new Set(rows.map(({ spaceId }) => spaceId))]
      return inOrderOf(ids, await readOf(viewer, spaceIds))
    },
  }
}

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { publishEndedSessions } from '../broker/ended-sessions.ts'
import { tokenChannel } from '../broker/topics.ts'
import { type HumanRole, Prisma, type AccessToken as Row } from '../generated/prisma/client.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { storableText } from '../lib/json.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { forRequester } from '../lib/requester-context.ts'
import { checkName, checkNameCharacters, checkText, LONGEST_NAME } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { deletePushSubscriptions } from '../stores/push-store.ts'
import { deleteSessions, selectOpenSessionsSql } from '../stores/session-store.ts'
import { deleteTaskPushes } from '../stores/task-push-store.ts'
import { insertToken, revokeToken, saveTokenUse } from '../stores/token-store.ts'
import { type CredentialLookups, createCredentialLookups } from './credential-lookups.ts'
import { createJwtVerifier, type VerifyJwt } from './jwt.ts'
import { settingKeysOf } from './sessions.ts'
import { OPERATOR_ID, type Viewer } from './viewer.ts'

/** An access token without the hash of its secret. */
export type AccessToken = Omit<Row, 'hash'>

export interface CreateAccessTokenInput {
  /** The access that the token gives. Exactly one of the fields is set. */
  grant: {
    admin?: { label?: string | null } | null
    humanId?: string | null
    service?: { name: string; agentIds?: string[] | null } | null
  }
  expiresAt?: Date | null
}

/** Manages access tokens, and authenticates bearer tokens. */
export interface Tokens {
  /**
   * Returns the viewer of a bearer token (without the word `Bearer`). This is the operator's token, the secret of an
   * access token, or a JWT. The `sub` of a JWT is the id or `externalId` of a human. Of these tokens, only a JWT gives
   * the viewer the role of its human. Returns null if the token is unknown, expired or revoked, or if its human does
   * not exist.
   */
  authenticate(bearer: string): Promise<Viewer | null>
  /** Whether the viewer's credential is still valid. This check is for the case that a `revoked` signal was lost. */
  stands(viewer: Viewer): Promise<boolean>
  /**
   * Returns the viewer with this id if it still has access; otherwise null. The id is that of a human, of an admin
   * token, or of the operator.
   */
  viewerOf(id: string): Promise<Viewer | null>
  /** Returns those of the access tokens and sessions that are no longer valid. */
  endedAmong(tokenIds: readonly string[]): Promise<string[]>
  /**
   * Creates an access token. Only admins may do this. `secret` is the bearer token, which the server does not store.
   * @throws BadInputError if the expiry is in the past; NotFoundError for a human or agent that does not exist
   */
  create(viewer: Viewer, input: CreateAccessTokenInput): Promise<{ accessToken: AccessToken; secret: string }>
  /**
   * Revokes an access token. Only admins may do this. A token that was already revoked keeps the time of its first
   * revocation. Publishes `revoked` on the channel of the token, and ends the sessions that were opened with it.
   */
  revoke(viewer: Viewer, input: { id: string }): Promise<AccessToken>
  /** Returns a page of the tokens of one human, or of all tokens, newest first; null if the viewer is not an admin. */
  page(viewer: Viewer, request: PageRequest, humanId: string | null): Promise<Page<AccessToken> | null>
  /** Returns tokens in the order of the ids; null for an unknown id, and for viewers who are not admins. */
  getMany(viewer: Viewer, ids: string[]): Promise<(AccessToken | null)[]>
}

const SECRET_PREFIX = 'prl_'
const SECRET_BYTES = 32
const LONGEST_BEARER = 8192
const MOST_GRANTED_AGENTS = 1000
const OMIT_HASH = { hash: true } as const

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** `verifyJwt` is by default the verifier from the settings. */
export function createTokens(
  platform: Pick<Platform, 'db' | 'clock' | 'signals' | 'config'>,
  adminToken: string,
  verifyJwt: VerifyJwt | null = createJwtVerifier(platform.config.jwt, platform.clock.now),
): Tokens {
  const { db, clock, signals } = platform
  const adminHash = sha256(adminToken)
  const settingKeys = settingKeysOf(adminToken, platform.config).all
  const rowsByHash = createRowsByHash(platform)

  async function viewerOfToken(secret: string): Promise<Viewer | null> {
    const row = await rowsByHash.load(sha256(secret).toString('hex'))
    if (row === null || !isGood(row, clock.now())) return null
    const viewer = viewerOf(row)
    if (clock.now() - Number(row.lastUsedAt) >= USE_NOTED_MS)
      await forRequester(viewer?.id ?? row.id, () => saveTokenUse(db.prisma, row.id, new Date(clock.now())))
    return viewer
  }

  async function endedAmong(ids: readonly string[]): Promise<string[]> {
    const now = clock.now()
    const sessionIds = ids.filter((id) => prefixOf(id) === 'ses')
    const tokenIds = ids.filter((id) => prefixOf(id) !== 'ses')
    const [tokens, sessions] = await Promise.all([
      tokenIds.length === 0 ? [] : db.prisma.accessToken.findMany({ where: { id: { in: tokenIds } }, omit: OMIT_HASH }),
      sessionIds.length === 0
        ? []
        : db.query<{ id: string }>(selectOpenSessionsSql(sessionIds, { now: new Date(now), settingKeys })),
    ])
    const valid = [...tokens.filter((row) => isGood(row, now)), ...sessions]
    const good = new Set(valid.map(({ id }) => id))
    return ids.filter((id) => !good.has(id))
  }

  async function getMany(viewer: Viewer, ids: string[]): Promise<(AccessToken | null)[]> {
    if (!isAdmin(viewer)) return ids.map(() => null)
    const rows = await db.prisma.accessToken.findMany({ where: { id: { in: wellFormedIds(ids) } }, omit: OMIT_HASH })
    return inOrderOf(ids, rows)
  }

  async function stands(viewer: Viewer): Promise<boolean> {
    const { scope, id, tokenId, expiresAt } = viewer
    if (expiresAt !== null && expiresAt.getTime() <= clock.now()) return false
    if (tokenId === null) return scope !== 'HUMAN' || (await hasRole(db.prisma, id, viewer.role ?? 'MEMBER'))
    return (await endedAmong([tokenId])).length === 0
  }

  return {
    async authenticate(bearer) {
      if (bearer.length > LONGEST_BEARER) return null
      if (timingSafeEqual(sha256(bearer), adminHash)) return OPERATOR
      if (bearer.startsWith(SECRET_PREFIX)) return viewerOfToken(bearer)
      return verifyJwt !== null && bearer.split('.').length === 3 ? viewerOfJwt(platform, bearer, verifyJwt) : null
    },
    stands,
    async viewerOf(id) {
      if (id === OPERATOR_ID) return OPERATOR
      if (prefixOf(id) === 'hum') {
        const human = await db.prisma.entity.findUnique({ where: { id, goneAt: null }, select: { role: true } })
        return human && { scope: 'HUMAN', id, role: human.role, tokenId: null, expiresAt: null }
      }
      if (prefixOf(id) !== 'acc') return null
      const row = await db.prisma.accessToken.findUnique({ where: { id }, omit: OMIT_HASH })
      return row !== null && isGood(row, clock.now()) ? viewerOf(row) : null
    },
    endedAmong,
    async create(viewer, input) {
      requireAdmin(viewer, 'create access tokens')
      const expiresAt = input.expiresAt ?? null
      if (expiresAt !== null && !(expiresAt.getTime() > clock.now())) {
        throw new BadInputError('A token must expire in the future.', 'input.expiresAt')
      }
      const grant = grantOf(input.grant)
      return db.transaction(async (tx) => {
        await checkGranted(tx, grant)
        const createdById = viewer.scope === 'HUMAN' ? viewer.id : null
        return issue(tx, { ...grant, expiresAt, createdAt: new Date(clock.now()), createdById })
      })
    },
    async revoke(viewer, { id }) {
      requireAdmin(viewer, 'revoke access tokens')
      if (prefixOf(id) === null) throw new NotFoundError(NO_SUCH_TOKEN)
      const [accessToken, sessionIds] = await db.transaction(async (tx) => {
        await revokeToken(tx, id, new Date(clock.now()))
        const revoked = await tx.accessToken.findUnique({ where: { id }, omit: OMIT_HASH })
        if (revoked === null) throw new NotFoundError(NO_SUCH_TOKEN)
        await deletePushSubscriptions(tx, { tokenId: id })
        await deleteTaskPushes(tx, { tokenId: id })
        return [revoked, await deleteSessions(tx, { tokenId: id })]
      })
      await Promise.all([
        signals.publish(tokenChannel(id), { type: 'revoked' }),
        publishEndedSessions(signals, sessionIds),
      ])
      return accessToken
    },
    getMany,
    async page(viewer, request, humanId) {
      if (!isAdmin(viewer)) return null
      const source = Prisma.sql`
        SELECT id FROM "AccessToken" WHERE ${humanId}::text IS NULL OR "humanId" = ${humanId}`
      return fetchPage(db.prisma, { source, request }, (ids) => getMany(viewer, ids))
    },
  }
}

const NO_SUCH_TOKEN = 'There is no such access token.'
const OPERATOR: Viewer = { scope: 'ADMIN', id: OPERATOR_ID, tokenId: null, expiresAt: null }

type AuthenticationPlatform = Pick<Platform, 'db' | 'clock'>

function createRowsByHash({ db }: Pick<Platform, 'db'>): CredentialLookups<Row> {
  return createCredentialLookups(async (hashes) => {
    const rows = await db.query<Row>(Prisma.sql`SELECT * FROM "AccessToken" WHERE ${isOneOf(Prisma.sql`hash`, hashes)}`)
    return new Map(rows.map((row) => [row.hash, row]))
  })
}

/** `lastUsedAt` has a resolution of one minute, to limit writes. */
const USE_NOTED_MS = 60_000

async function viewerOfJwt({ db }: AuthenticationPlatform, token: string, verify: VerifyJwt): Promise<Viewer | null> {
  const signIn = await verify(token)
  if (signIn === null) return null
  const { subject, expiresAt } = signIn
  // PostgreSQL cannot store this text, so it is not the `externalId` of a human.
  if (storableText(subject) !== subject) return null
  // The token has a valid signature, so the client did not invent the subject.
  const humans = await forRequester(subject, () =>
    db.prisma.entity.findMany({
      where: { kind: 'HUMAN', goneAt: null, OR: [{ id: subject }, { externalId: subject }] },
    }),
  )
  const human = humans.find(({ id }) => id === subject) ?? humans[0]
  return human === undefined ? null : { scope: 'HUMAN', id: human.id, role: human.role, tokenId: null, expiresAt }
}

function isGood({ expiresAt, revokedAt }: AccessToken, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt.getTime() > now)
}

function viewerOf(token: AccessToken): Viewer | null {
  const common = { tokenId: token.id, expiresAt: token.expiresAt }
  switch (token.scope) {
    case 'ADMIN':
      return { scope: 'ADMIN', id: token.id, ...common }
    case 'HUMAN':
      return token.humanId === null ? null : { scope: 'HUMAN', id: token.humanId, ...common }
    case 'SERVICE': {
      const agentIds = token.restricted ? token.agentIds : null
      return { scope: 'SERVICE', id: token.id, name: token.serviceName ?? '', agentIds, ...common }
    }
  }
}

type Grant =
  | { scope: 'ADMIN'; label: string | null }
  | { scope: 'HUMAN'; humanId: string }
  | { scope: 'SERVICE'; serviceName: string; agentIds: string[]; restricted: boolean }

function checkLabel(label: string, field: string): string {
  checkNameCharacters(label, field)
  return checkText(label, LONGEST_NAME, field)
}

function grantOf({ admin, humanId, service }: CreateAccessTokenInput['grant']): Grant {
  if ([admin, humanId, service].filter((grant) => grant != null).length !== 1) {
    throw new BadInputError('Set exactly one of admin, humanId and service.', 'input.grant')
  }
  if (humanId != null) return { scope: 'HUMAN', humanId }
  if (service == null) {
    const label = admin?.label ?? null
    return { scope: 'ADMIN', label: label === null ? null : checkLabel(label, 'input.grant.admin.label') }
  }
  const agentIds = [...new Set(service.agentIds ?? [])]
  if (agentIds.length > MOST_GRANTED_AGENTS) {
    throw new BadInputError(
      `A token can be granted at most ${MOST_GRANTED_AGENTS} agents.`,
      'input.grant.service.agentIds',
    )
  }
  const serviceName = checkName(service.name, 'input.grant.service.name')
  return { scope: 'SERVICE', serviceName, agentIds, restricted: service.agentIds != null }
}

/** Creates a token and returns its secret, which cannot be read later. */
export async function issue(
  tx: Tx,
  granted: Omit<Prisma.AccessTokenCreateInput, 'id' | 'hash'>,
): Promise<{ accessToken: AccessToken; secret: string }> {
  const secret = SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64url')
  const data = { id: newId('acc'), hash: sha256(secret).toString('hex'), ...granted }
  return { accessToken: await insertToken(tx, data), secret }
}

/** Whether the human exists, was not erased, and has this role. */
async function hasRole(tx: Tx, humanId: string, role: HumanRole): Promise<boolean> {
  return (await tx.entity.count({ where: { id: humanId, goneAt: null, role } })) > 0
}

/** Locks the rows of the grant until the transaction ends, so that they cannot be deleted until then. */
async function checkGranted(tx: Tx, grant: Grant): Promise<void> {
  if (grant.scope === 'ADMIN') return
  const wanted =
    grant.scope === 'HUMAN'
      ? { kind: 'HUMAN' as const, ids: [grant.humanId] }
      : { kind: 'AGENT' as const, ids: grant.agentIds }
  const found = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Entity" WHERE id = ANY(${wellFormedIds(wanted.ids)}::text[]) AND kind::text = ${wanted.kind} AND "goneAt" IS NULL
    ORDER BY id FOR SHARE`
  if (found.length < wanted.ids.length) throw new NotFoundError(`There is no such ${wanted.kind.toLowerCase()}.`)
}

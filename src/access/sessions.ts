import { createHash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { publishEndedSessions } from '../broker/ended-sessions.ts'
import { SESSIONS_CHANNEL } from '../broker/topics.ts'
import { type HumanRole, Prisma, type Session as Row } from '../generated/prisma/client.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { forRequester } from '../lib/requester-context.ts'
import type { Tx } from '../platform/db.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import { requireInPerson } from '../rules/acting.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { noteDeed } from '../stores/audit-store.ts'
import { isLoggedOut, type ProviderLogin } from '../stores/identity-store.ts'
import {
  deleteExpiredSessions,
  deleteSessions,
  insertSession,
  selectOpenSessionsSql,
  useSessionSql,
} from '../stores/session-store.ts'
import { createCredentialLookups } from './credential-lookups.ts'
import { deviceOf } from './device.ts'
import { type AdminViewer, type HumanViewer, OPERATOR_ID, type Viewer } from './viewer.ts'

/** A session, without the hash of its secret. */
export type Session = Omit<Row, 'hash'>

/** The session cookie of a browser. */
export interface SessionCookie {
  secret: string
  /** How long the browser keeps the cookie; null to keep it until the browser is closed. */
  maxAgeSeconds: number | null
}

/** A new session. */
export interface OpenedSession {
  cookie: SessionCookie
  /** The ids of the sessions that the new one replaces. */
  endedIds: string[]
}

/** An open session. */
export interface Resumed {
  viewer: Viewer
  /** The cookie with its new, later expiry; null if the expiry has not changed. */
  renewed: SessionCookie | null
}

export interface OpenSessionInput {
  userAgent: string | undefined
  /** The secrets of the browser's earlier sessions. They end when the new session begins. */
  replaced: readonly string[]
}

/** Thrown if the identity provider ended the sign-in before the session was opened. */
export class LoggedOutError extends Error {}

/** A sign-in of a human who has no token. */
export interface HumanSignIn extends OpenSessionInput {
  humanId: string
  /** The method of sign-in for the audit log: `mail`, `invitation` or `oidc`. */
  by: string
  /** The provider at which the human signed in, and its session there. */
  oidc?: ProviderLogin
}

/** Manages browser sessions, which use cookies instead of bearer tokens. */
export interface Sessions {
  /**
   * Returns the viewer of a cookie, with a new cookie if the expiry has changed. Returns null if the session is unknown
   * or has ended. Executes one statement, or two if the session is new to this process. Executes none within 30 s after
   * a use.
   * @param renews whether this is a use, which extends the session; set it only if the response can set the cookie
   */
  authenticate(secret: string, how: { renews: boolean }): Promise<Resumed | null>
  /**
   * Opens a session for the viewer of a bearer token. The session ends with the token.
   * @throws ForbiddenError for a service, and for an admin who acts as another human
   */
  open(viewer: Viewer, input: OpenSessionInput): Promise<SessionCookie>
  /**
   * Opens a session for a human who has authenticated without a token, and records the sign-in in the audit log. Each
   * session gets a new secret.
   * @throws ForbiddenError if the human was erased
   */
  openForHuman(signIn: HumanSignIn): Promise<SessionCookie>
  /**
   * Like `openForHuman`, in the caller's transaction. The caller passes `endedIds` to `publishEnded` after the commit.
   */
  insertForHuman(tx: Tx, signIn: HumanSignIn): Promise<OpenedSession>
  /** Publishes that sessions have ended, so that every process closes their sockets. */
  publishEnded(ids: readonly string[]): Promise<void>
  /**
   * Lets an admin act as another human for 30 minutes, in a session with a bearer token instead of a cookie. The
   * session ends when the admin loses the role, or when the admin's own session or token ends. At most 10 such
   * sessions exist per human; opening another one ends the oldest.
   * @throws ForbiddenError if the viewer is not an admin; NotFoundError if the human does not exist
   */
  actAs(viewer: Viewer, input: { humanId: string }): Promise<{ secret: string; expiresAt: Date }>
  /** Returns the viewer for a secret that `actAs` returned; null if the secret is unknown or its session has ended. */
  authenticateActing(secret: string): Promise<Viewer | null>
  /** Ends the sessions with these secrets, which come from a browser's cookies. */
  signOut(secrets: readonly string[]): Promise<void>
  /**
   * Ends one session of the viewer, or all sessions except that of this request. Admins may end any session. An admin
   * who acts as another human may end only the acting session.
   * @returns the ids of the ended sessions
   * @throws ForbiddenError for a service, NotFoundError
   */
  end(viewer: Viewer, input: { id: string | null }): Promise<string[]>
  /** Returns the viewer's open sessions, most recently used first. */
  list(viewer: Viewer): Promise<Session[]>
  /**
   * Like `list`, but for each of several humans. Returns null for a human unless the viewer is this human or an admin.
   */
  ofHumans(viewer: Viewer, humanIds: readonly string[]): Promise<(Session[] | null)[]>
  /**
   * Returns sessions in the order of the ids; null for sessions that have ended. A viewer gets their own sessions, and
   * an admin gets any session.
   */
  getMany(viewer: Viewer, ids: string[]): Promise<(Session | null)[]>
}

const DAY_MS = 86_400_000
const HUMAN_LIFETIME_MS = 30 * DAY_MS
/**
 * The maximum duration of a session that was opened with the operator's token or an admin token. Browsers keep its
 * cookie only until they are closed.
 */
const ADMIN_LIFETIME_MS = DAY_MS
/** `lastUsedAt` has a resolution of one minute, to limit writes. */
const USE_NOTED_MS = 60_000
const KNOWN_FOR_MS = 30_000
const MOST_KNOWN = 10_000
const SECRET_BYTES = 32
const IS_SECRET = /^[\w-]{43}$/
const MOST_OF_VIEWER = 50
const ACTING_MS = 30 * 60_000
/** The maximum number of sessions in which admins act as the same human. */
const MOST_ACTING = 10
const ACTING_PREFIX = 'pra_'
const NO_SUCH_HUMAN = 'There is no such human.'
/** The maximum number of expired sessions that a sign-in deletes. */
const MOST_EXPIRED_AT_ONCE = 500
const OMIT_HASH = { hash: true } as const
const NO_SUCH_SESSION = 'There is no such session, or it has ended.'
const NOT_OF_PERSON =
  'Pass the id of a session (`ses_…`), not of a person. `Human.sessions` lists the sessions of a person.'

/** Whether a bearer token has the form of the secrets that `actAs` returns. */
export const isActingSecret = (bearer: string) =>
  bearer.startsWith(ACTING_PREFIX) && IS_SECRET.test(bearer.slice(ACTING_PREFIX.length))

const hashOf = (secret: string) => createHash('sha256').update(secret).digest('hex')

const lifetimeOf = (scope: Row['scope']) => (scope === 'ADMIN' ? ADMIN_LIFETIME_MS : HUMAN_LIFETIME_MS)

export function createSessions(
  { db, clock, signals, config }: Pick<Platform, 'db' | 'clock' | 'signals' | 'config'>,
  adminToken: string,
): Sessions {
  const keys = settingKeysOf(adminToken, config)
  const known = createKnownSessions(signals)
  const owners = createCredentialLookups((hashes) => selectOwners(db, hashes))

  async function publishEnded(ids: readonly string[]): Promise<void> {
    known.forget(ids)
    await publishEndedSessions(signals, ids)
  }

  /**
   * Returns the id of the token or session with which the viewer signed in, or the key of the setting that allowed the
   * sign-in.
   */
  const credentialOf = (viewer: Viewer) => viewer.tokenId ?? (viewer.id === OPERATOR_ID ? keys.operator : keys.jwt)

  const openNow = () => ({ now: new Date(clock.now()), settingKeys: keys.all })

  /** Reads a session. If `renews` is set, also records a use. */
  async function use(hash: string, renews: boolean): Promise<(KnownRow & { renewedUntil: Date | null }) | undefined> {
    const now = clock.now()
    const times = {
      ...openNow(),
      notedBefore: new Date(renews ? now - USE_NOTED_MS : 0),
      adminUntil: new Date(now + ADMIN_LIFETIME_MS),
      until: new Date(now + HUMAN_LIFETIME_MS),
    }
    const [row] = await db.query<KnownRow & { renewedUntil: Date | null }>(useSessionSql(hash, times))
    return row
  }

  /** Like `authenticate`, but for the hash of a cookie or of a secret that `actAs` returned. */
  async function resume(hash: string, secret: string, renews: boolean): Promise<Resumed | null> {
    const already = known.get(hash)
    if (already !== undefined && already.expiresAt.getTime() > clock.now())
      return { viewer: viewerOf(already), renewed: null }
    const isCurrent = known.mark()
    // The session's human is the requester of the lookup, so the lookup waits only for statements of the same human.
    const owner = owners.hint(hash) ?? (await owners.load(hash))
    if (owner === null) return null
    const row = await forRequester(owner.viewerId, () => use(hash, renews))
    if (row === undefined) {
      owners.forget(hash)
      return null
    }
    const { renewedUntil, ...before } = row
    const session = { ...before, expiresAt: renewedUntil ?? before.expiresAt }
    // A session that has ended since the lookup began is not cached. A session that was only read is not cached either,
    // because its next use must be recorded.
    if (renews && isCurrent()) known.add(hash, session)
    const hasLongerCookie = session.scope !== 'ADMIN' && session.expiresAt > before.expiresAt
    return { viewer: viewerOf(session), renewed: hasLongerCookie ? cookieOf(session, secret, clock.now()) : null }
  }

  /**
   * Ends the matching sessions.
   * @throws NotFoundError if `isExpected` is set and no session ended. The error is thrown within the transaction, so
   * no audit entry is written
   */
  async function endWhere(where: Prisma.SessionWhereInput, { isExpected = false } = {}): Promise<string[]> {
    const ids = await db.transaction(async (tx) => {
      const ended = await deleteSessions(tx, where)
      if (isExpected && ended.length === 0) throw new NotFoundError(NO_SUCH_SESSION)
      return ended
    })
    await publishEnded(ids)
    return ids
  }

  /**
   * Inserts a session. Deletes the sessions that it replaces. If there are more sessions than the limit, also deletes
   * the least recently used ones.
   * @param begin called first, with the id of the session
   */
  async function insert(
    tx: Tx,
    opened: Pick<Row, 'scope' | 'viewerId' | 'tokenId' | 'oidcSid' | 'endsBy'>,
    { userAgent, replaced }: OpenSessionInput,
    begin: (id: string) => Promise<void>,
  ): Promise<OpenedSession> {
    const secret = randomBytes(SECRET_BYTES).toString('base64url')
    const now = clock.now()
    const { scope, viewerId, endsBy } = opened
    const until = now + lifetimeOf(scope)
    const row: Row = {
      id: newId('ses'),
      hash: hashOf(secret),
      ...opened,
      acting: false,
      actingAdminId: null,
      device: deviceOf(userAgent),
      createdAt: new Date(now),
      lastUsedAt: new Date(now),
      expiresAt: new Date(endsBy === null ? until : Math.min(until, endsBy.getTime())),
    }
    await begin(row.id)
    await insertSession(tx, row)
    await deleteExpiredSessions(tx, new Date(now), MOST_EXPIRED_AT_ONCE)
    const surplus = await tx.session.findMany({
      where: { viewerId, scope, acting: false },
      orderBy: [{ lastUsedAt: 'desc' }, { id: 'desc' }],
      skip: MOST_OF_VIEWER,
      select: { id: true },
    })
    const endedIds = await deleteSessions(tx, {
      OR: [{ id: { in: surplus.map(({ id }) => id) } }, { hash: { in: replaced.map(hashOf) } }],
    })
    return { cookie: cookieOf(row, secret, now), endedIds }
  }

  /** Inserts a session in a transaction of its own, and publishes the end of the sessions that it replaces. */
  async function commit(inserted: (tx: Tx) => Promise<OpenedSession>): Promise<SessionCookie> {
    const { cookie, endedIds } = await db.transaction(inserted)
    await publishEnded(endedIds)
    return cookie
  }

  function insertForHuman(tx: Tx, { humanId, by, oidc, ...input }: HumanSignIn): Promise<OpenedSession> {
    const tokenId = oidc === undefined ? null : keys.ofOidc(oidc.provider)
    const opened = { scope: 'HUMAN' as const, viewerId: humanId, tokenId, oidcSid: oidc?.sid ?? null, endsBy: null }
    return insert(tx, opened, input, async (id) => {
      if (oidc !== undefined && (await isLoggedOut(tx, oidc, new Date(clock.now())))) throw new LoggedOutError()
      await lockCredential(tx, { scope: 'HUMAN', id: humanId, tokenId: null })
      const detail = { by, ...(oidc === undefined ? {} : { provider: oidc.provider }) }
      await noteDeed(tx, { actorId: humanId, serviceName: null, action: 'signIn', targetId: id, detail })
    })
  }

  /** Reads open sessions, most recently used first. */
  async function select(where: Prisma.SessionWhereInput): Promise<Session[]> {
    const orderBy = [{ lastUsedAt: 'desc' as const }, { id: 'desc' as const }]
    return onlyOpen(await db.prisma.session.findMany({ where, orderBy, omit: OMIT_HASH }))
  }

  async function onlyOpen(rows: readonly Session[]): Promise<Session[]> {
    if (rows.length === 0) return []
    const ids = rows.map(({ id }) => id)
    const open = new Set((await db.query<{ id: string }>(selectOpenSessionsSql(ids, openNow()))).map(({ id }) => id))
    return rows.filter(({ id }) => open.has(id))
  }

  return {
    async authenticate(secret, { renews }) {
      if (!IS_SECRET.test(secret)) return null
      return resume(hashOf(secret), secret, renews)
    },
    async authenticateActing(secret) {
      const resumed = isActingSecret(secret) ? await resume(hashOf(secret), secret, true) : null
      return resumed?.viewer ?? null
    },
    async actAs(viewer, { humanId }) {
      requireAdmin(viewer, 'act as another human')
      if (prefixOf(humanId) !== 'hum') throw new NotFoundError(NO_SUCH_HUMAN)
      const secret = ACTING_PREFIX + randomBytes(SECRET_BYTES).toString('base64url')
      const now = clock.now()
      const expiresAt = new Date(Math.min(now + ACTING_MS, viewer.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY))
      const actingAdminId = viewer.scope === 'HUMAN' ? viewer.id : null
      const row: Row = {
        id: newId('ses'),
        hash: hashOf(secret),
        scope: 'HUMAN',
        viewerId: humanId,
        acting: true,
        actingAdminId,
        tokenId: credentialOf(viewer),
        oidcSid: null,
        device: actingAdminId === null ? 'The operator, acting as you' : 'An admin, acting as you',
        createdAt: new Date(now),
        lastUsedAt: new Date(now),
        expiresAt,
        endsBy: expiresAt,
      }
      const ended = await db.transaction(async (tx) => {
        await lockActing(tx, viewer, humanId)
        await insertSession(tx, row)
        const surplus = await tx.session.findMany({
          where: { viewerId: humanId, acting: true },
          orderBy: { id: 'desc' },
          skip: MOST_ACTING,
          select: { id: true },
        })
        return deleteSessions(tx, { id: { in: surplus.map(({ id }) => id) } })
      })
      await publishEnded(ended)
      return { secret, expiresAt }
    },
    async open(viewer, input) {
      if (viewer.scope === 'SERVICE')
        throw new ForbiddenError('A service has no session: send its token with each request.')
      requireInPerson(viewer, 'open sessions')
      const { scope, id: viewerId, expiresAt: endsBy } = viewer
      const opened = { scope, viewerId, tokenId: credentialOf(viewer), oidcSid: null, endsBy }
      return commit((tx) => insert(tx, opened, input, () => lockCredential(tx, viewer)))
    },
    openForHuman: (signIn) => commit((tx) => insertForHuman(tx, signIn)),
    insertForHuman,
    publishEnded,
    async signOut(secrets) {
      await endWhere({ hash: { in: secrets.map(hashOf) } })
    },
    async end(viewer, { id }) {
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service has no sessions.')
      if (id !== viewer.tokenId) requireInPerson(viewer, 'end sessions')
      const own = ownedBy(viewer)
      if (id === null) return endWhere({ ...own, ...(viewer.tokenId === null ? {} : { id: { not: viewer.tokenId } }) })
      if (prefixOf(id) !== 'ses') throw new NotFoundError(prefixOf(id) === 'hum' ? NOT_OF_PERSON : NO_SUCH_SESSION)
      return endWhere(isAdmin(viewer) ? { id } : { ...own, id }, { isExpected: true })
    },
    async list(viewer) {
      return viewer.scope === 'SERVICE' ? [] : select(ownedBy(viewer))
    },
    async ofHumans(viewer, humanIds) {
      const mayList = (id: string) => isAdmin(viewer) || viewer.id === id
      const found = await select({ scope: 'HUMAN', viewerId: { in: humanIds.filter(mayList) } })
      const byHuman = Map.groupBy(found, ({ viewerId }) => viewerId)
      return humanIds.map((id) => (mayList(id) ? (byHuman.get(id) ?? []) : null))
    },
    async getMany(viewer, ids) {
      if (viewer.scope === 'SERVICE') return ids.map(() => null)
      const where = isAdmin(viewer) ? {} : ownedBy(viewer)
      const own = ids.filter((id) => prefixOf(id) === 'ses')
      const rows = await db.prisma.session.findMany({ where: { ...where, id: { in: own } }, omit: OMIT_HASH })
      return inOrderOf(ids, await onlyOpen(rows))
    },
  }
}

/** The values of `tokenId` for sessions that were opened without an access token. */
export interface SettingKeys {
  operator: string
  jwt: string
  /**
   * Returns the key for a provider.
   * @throws Error if the settings do not contain the provider
   */
  ofOidc(provider: string): string
  /** All current keys. A session with any other key has ended. */
  all: readonly string[]
}

/**
 * Returns the keys of the admin token, the JWT settings, and each identity provider. A key changes if a setting changes
 * that determines whom the server accepts. A client's secret is not such a setting.
 */
export function settingKeysOf(
  adminToken: string,
  { jwt, oidc }: Pick<Platform['config'], 'jwt' | 'oidc'>,
): SettingKeys {
  const keyOf = (kind: string, content: string) => `${kind}:${hashOf(content).slice(0, 32)}`
  const operator = keyOf('operator', adminToken)
  const ofJwt = keyOf('jwt', JSON.stringify([jwt.secret, jwt.jwksUrl, jwt.issuer, jwt.audience]))
  const providers = new Map(
    oidc.providers.map(({ name, issuer, clientId }) => [name, keyOf('oidc', JSON.stringify([issuer, clientId]))]),
  )
  return {
    operator,
    jwt: ofJwt,
    ofOidc(provider) {
      const key = providers.get(provider)
      if (key === undefined) throw new Error(`There is no identity provider ${provider}.`)
      return key
    },
    all: [operator, ofJwt, ...providers.values()],
  }
}

/** Returns the owners of sessions by hash, including sessions that have ended. */
async function selectOwners({ query }: Pick<Platform['db'], 'query'>, hashes: readonly string[]) {
  const rows = await query<Pick<Row, 'hash' | 'viewerId'>>(
    Prisma.sql`SELECT hash, "viewerId" FROM "Session" WHERE ${isOneOf(Prisma.sql`hash`, hashes)}`,
  )
  return new Map(rows.map((row) => [row.hash, row]))
}

/**
 * Locks the rows of the token and the human until the transaction ends.
 * @throws ForbiddenError if the token was revoked or the human was erased
 */
async function lockCredential(tx: Tx, viewer: Pick<Viewer, 'scope' | 'id' | 'tokenId'>): Promise<void> {
  const found = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "AccessToken" WHERE id = ${viewer.tokenId} AND "revokedAt" IS NULL FOR SHARE`
  const humans = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Entity" WHERE id = ${viewer.id} AND "goneAt" IS NULL FOR SHARE`
  if (viewer.tokenId !== null && found.length === 0)
    throw new ForbiddenError('The token was revoked. Sign in with another one.')
  if (viewer.scope === 'HUMAN' && humans.length === 0)
    throw new ForbiddenError('This person was erased, and cannot sign in. Ask an admin.')
}

/**
 * Locks the row of the human, and the row of the admin's role, session or token, until the transaction ends.
 * @throws ForbiddenError if the admin has lost the role, session or token; NotFoundError if the human does not exist
 */
async function lockActing(tx: Tx, viewer: Viewer, humanId: string): Promise<void> {
  const humans = await tx.$queryRaw<{ id: string; role: HumanRole }[]>`
    SELECT id, role::text FROM "Entity" WHERE id = ANY(${[humanId, viewer.id]}::text[]) AND kind = 'HUMAN' AND "goneAt" IS NULL
    ORDER BY id FOR SHARE`
  const isStillAdmin = viewer.scope !== 'HUMAN' || humans.some(({ id, role }) => id === viewer.id && role === 'ADMIN')
  const { tokenId } = viewer
  const credentials =
    tokenId === null
      ? null
      : prefixOf(tokenId) === 'ses'
        ? await tx.$queryRaw<unknown[]>`SELECT 1 FROM "Session" WHERE id = ${tokenId} FOR SHARE`
        : await tx.$queryRaw<unknown[]>`
          SELECT 1 FROM "AccessToken" WHERE id = ${tokenId} AND "revokedAt" IS NULL FOR SHARE`
  if (!isStillAdmin || credentials?.length === 0) throw new ForbiddenError('Only an admin can act as another human.')
  if (!humans.some(({ id }) => id === humanId)) throw new NotFoundError(NO_SUCH_HUMAN)
}

const ownedBy = ({ scope, id }: AdminViewer | HumanViewer) => ({ scope, viewerId: id })

/** A session, with the role that its human had when the session was read. A change of the role ends the session. */
type KnownRow = Row & { role: HumanRole }

function viewerOf({
  id: tokenId,
  scope,
  viewerId: id,
  endsBy: expiresAt,
  role,
  acting,
  actingAdminId,
}: KnownRow): Viewer {
  if (scope === 'ADMIN') return { scope, id, tokenId, expiresAt }
  const human = { scope: 'HUMAN' as const, id, tokenId, expiresAt }
  return acting ? { ...human, acting: { adminId: actingAdminId } } : { ...human, role }
}

function cookieOf({ scope, expiresAt }: Pick<Row, 'scope' | 'expiresAt'>, secret: string, now: number): SessionCookie {
  const leftSeconds = Math.max(0, Math.floor((expiresAt.getTime() - now) / 1000))
  return { secret, maxAgeSeconds: scope === 'ADMIN' ? null : leftSeconds }
}

/** Caches the sessions that this process has read, for half a minute or until a signal reports their end. */
function createKnownSessions(signals: Platform['signals']) {
  const hashes = new Map<string, string>()
  const rows = new LRUCache<string, KnownRow>({
    max: MOST_KNOWN,
    ttl: KNOWN_FOR_MS,
    dispose: ({ id }) => hashes.delete(id),
  })
  /** How often sessions were removed from the cache. */
  let changes = 0
  const forget = (ids: readonly string[]) => {
    changes += 1
    for (const id of ids) rows.delete(hashes.get(id) ?? '')
  }
  // Whether the channel is subscribed. While it is not, nothing is cached.
  let isListening = false
  signals
    .subscribe(SESSIONS_CHANNEL, (payload) => {
      if (payload.type === 'ended') forget(payload.ids)
    })
    .then(() => {
      isListening = true
    })
    .catch(() => {})
  signals.onReconnect(() => {
    changes += 1
    rows.clear()
  })
  return {
    get: (hash: string) => rows.get(hash),
    /** Returns a function that tells whether no session was removed from the cache since this call. */
    mark() {
      const before = changes
      return () => changes === before
    },
    add(hash: string, row: KnownRow) {
      if (!isListening) return
      rows.set(hash, row)
      hashes.set(row.id, hash)
    },
    forget,
  }
}

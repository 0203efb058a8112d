import { createHash, randomBytes } from 'node:crypto'
import {
  createOidcClient,
  type OidcAccount,
  type OidcChecks,
  type OidcClient,
  OidcError,
  type OidcFault,
} from '../access/oidc-client.ts'
import {
  LoggedOutError,
  type OpenSessionInput,
  type SessionCookie,
  type Sessions,
  settingKeysOf,
} from '../access/sessions.ts'
import { checkExternalId } from '../agents/humans.ts'
import { publishEndedSessions, publishRoleChange } from '../broker/ended-sessions.ts'
import type { OidcProviderSettings } from '../config/oidc.ts'
import type { Identity } from '../generated/prisma/client.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { hasClaim, nameIn, refusalOf, type SignInRefusal, verifiedEmailIn } from '../rules/oidc-claims.ts'
import { pictureIn } from '../rules/picture.ts'
import type { Members } from '../spaces/members.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { noteDeed } from '../stores/audit-store.ts'
import {
  changeRole,
  findHumanByEmail,
  insertHuman,
  lockHumanByExternalId,
  type RoleChange,
  updateHuman,
} from '../stores/human-store.ts'
import { deleteIdentities, markLoggedOut, saveIdentity, useLogoutToken } from '../stores/identity-store.ts'
import { deleteSessions } from '../stores/session-store.ts'

/** A sign-in that a browser has started. The browser keeps the encrypted state of the sign-in in a cookie. */
export interface BegunSignIn {
  type: 'begun'
  /** The URL to which the browser must be redirected. */
  url: string
  /** The `state` parameter that the browser brings back from the provider. */
  state: string
  sealed: string
}

export type OidcOutcome =
  | { type: 'signed-in'; cookie: SessionCookie; to: string }
  /** `attempt`: this browser did not start this sign-in, or started it too long ago. */
  | { type: 'failed'; reason: OidcFault | SignInRefusal | 'attempt'; to: string }

/** Signs people in through identity providers by OpenID Connect (authorization code flow with PKCE). */
export interface OidcSignIns {
  providers: readonly Pick<OidcProviderSettings, 'name' | 'label'>[]
  /** The maximum duration of a sign-in, in seconds. */
  attemptSeconds: number
  /**
   * Starts a sign-in at a provider.
   * @param to the path on this server to which the browser returns after the sign-in
   */
  begin(
    provider: string,
    input: { redirectUri: string; to: string },
  ): Promise<BegunSignIn | { type: 'failed'; reason: OidcFault }>
  /**
   * Completes a sign-in: verifies the response, decides whether the person may sign in, creates or updates the human,
   * and opens a session.
   * @param sealed the encrypted state from `begin` that belongs to the `state` in the query; null if the browser does
   * not have it
   */
  finish(provider: string, input: { query: string; sealed: string | null } & OpenSessionInput): Promise<OidcOutcome>
  /**
   * Ends the sessions that a logout token identifies, in every process. Returns false if the token is invalid or was
   * used before.
   * @throws OidcError if the keys of the provider cannot be read
   */
  logout(provider: string, token: string): Promise<boolean>
}

/** The content of the encrypted cookie of a sign-in. */
interface Attempt extends OidcChecks {
  provider: string
  redirectUri: string
  to: string
  expiresAt: number
}

interface OidcParts {
  sessions: Pick<Sessions, 'openForHuman'>
  members: Pick<Members, 'spacesOf'>
  publisher: Pick<SpacePublisher, 'changed'>
  /** This `fetch` allows private addresses, because the operator has chosen the issuers. */
  fetch: typeof globalThis.fetch
  adminToken: string
}

const ATTEMPT_MS = 10 * 60_000
const ATTEMPT_CONTEXT = 'oidc-attempt'
const NAMELESS = 'New person'

export function createOidcSignIns(platform: Platform, parts: OidcParts): OidcSignIns {
  const { db, clock, secretBox, signals, logger, config } = platform
  const { providers, allow } = config.oidc
  const clients = new Map<string, OidcClient>(
    providers.map((one) => [one.name, createOidcClient(one, { fetch: parts.fetch, now: clock.now })]),
  )
  const keys = settingKeysOf(parts.adminToken, config)

  function clientOf(provider: string): OidcClient {
    const client = clients.get(provider)
    if (client === undefined) throw new Error(`There is no identity provider ${provider}.`)
    return client
  }

  function failed(provider: string, error: unknown): OidcFault {
    if (!(error instanceof OidcError)) throw error
    logger.warn({ provider, fault: error.fault, detail: error.detail }, 'a sign-in with OpenID Connect failed')
    return error.fault
  }

  /** Returns the sign-in attempt from a browser's cookie, or null if it is for another provider or has expired. */
  function attemptOf(provider: string, sealed: string | null): Attempt | null {
    if (sealed === null) return null
    try {
      const attempt = JSON.parse(secretBox.open(sealed, ATTEMPT_CONTEXT)) as Attempt
      return attempt.provider === provider && attempt.expiresAt > clock.now() ? attempt : null
    } catch {
      return null
    }
  }

  /** Creates or updates the human of an account, and publishes the changes. */
  async function link(account: OidcAccount): Promise<string> {
    const work = (tx: Tx) => linkAccount(tx, account, { now: new Date(clock.now()), config })
    const linked = await db.transaction(work).catch((error) => {
      // Another sign-in with the same account has created the human in the meantime.
      if (isUniqueViolation(error)) return db.transaction(work)
      throw error
    })
    await publishRoleChange({ signals, logger }, linked.roleChange)
    if (linked.isChanged)
      for (const spaceId of await parts.members.spacesOf(linked.humanId)) await parts.publisher.changed(spaceId)
    return linked.humanId
  }

  return {
    providers: providers.map(({ name, label }) => ({ name, label })),
    attemptSeconds: ATTEMPT_MS / 1000,
    async begin(provider, { redirectUri, to }) {
      const [state, nonce, codeVerifier] = [secret(), secret(), secret()]
      try {
        const url = await clientOf(provider).authorizationUrl(redirectUri, { state, nonce, codeVerifier })
        const attempt: Attempt = {
          provider,
          state,
          nonce,
          codeVerifier,
          redirectUri,
          to,
          expiresAt: clock.now() + ATTEMPT_MS,
        }
        return { type: 'begun', url: url.href, state, sealed: secretBox.seal(JSON.stringify(attempt), ATTEMPT_CONTEXT) }
      } catch (error) {
        return { type: 'failed', reason: failed(provider, error) }
      }
    },
    async finish(provider, { query, sealed, ...browser }) {
      const attempt = attemptOf(provider, sealed)
      if (attempt === null) return { type: 'failed', reason: 'attempt', to: '/' }
      const { to } = attempt
      try {
        const account = await clientOf(provider).finish(new URL(`${attempt.redirectUri}?${query}`), attempt)
        const refusal = refusalOf(allow, account.claims)
        if (refusal !== null) {
          await noteRefusal(db, { provider, refusal })
          return { type: 'failed', reason: refusal, to }
        }
        const humanId = await link(account)
        const { issuer, sid, subject, issuedAt } = account
        const oidc = { issuer, provider, sid, subject, issuedAt }
        return {
          type: 'signed-in',
          cookie: await parts.sessions.openForHuman({ humanId, by: 'oidc', oidc, ...browser }),
          to,
        }
      } catch (error) {
        if (error instanceof LoggedOutError) return { type: 'failed', reason: 'expired', to }
        return { type: 'failed', reason: failed(provider, error), to }
      }
    },
    async logout(provider, token) {
      const logout = await clientOf(provider).verifyLogout(token)
      if (logout === null) return false
      const { issuer, subject, sid, jti, issuedAt, expiresAt } = logout
      const hash = createHash('sha256')
        .update(JSON.stringify([issuer, provider, jti]))
        .digest('hex')
      const ended = await db.transaction(async (tx) => {
        if (!(await useLogoutToken(tx, { hash, expiresAt }, new Date(clock.now())))) return null
        await markLoggedOut(tx, { issuer, provider, sid, subject: subject ?? '', issuedAt })
        const ids = await deleteSessions(tx, {
          tokenId: keys.ofOidc(provider),
          ...(sid === null ? { viewerId: await humanOf(tx, issuer, subject ?? '') } : { oidcSid: sid }),
        })
        for (const targetId of ids) {
          const deed = { actorId: null, serviceName: provider, action: 'endSession', targetId, detail: { by: 'oidc' } }
          await noteDeed(tx, deed)
        }
        return ids
      })
      if (ended === null) return false
      await publishEndedSessions(signals, ended)
      return true
    },
  }
}

const secret = () => randomBytes(32).toString('base64url')

async function noteRefusal(db: Platform['db'], detail: { provider: string; refusal: SignInRefusal }): Promise<void> {
  const deed = { actorId: null, serviceName: detail.provider, action: 'signIn', targetId: null, detail }
  await db.transaction((tx) => noteDeed(tx, deed, { refused: true }))
}

/** Returns the id of the human who owns an account, or '' if there is none. */
async function humanOf(tx: Tx, issuer: string, subject: string): Promise<string> {
  const identity = await tx.identity.findUnique({ where: { issuer_subject: { issuer, subject } } })
  return identity?.humanId ?? ''
}

interface Linked {
  humanId: string
  /** Whether a field has changed that spaces display. */
  isChanged: boolean
  roleChange: RoleChange | null
}

/** Finds or creates the human of an account, and updates the fields that come from its claims. */
async function linkAccount(
  tx: Tx,
  { issuer, subject, claims }: OidcAccount,
  { now, config }: { now: Date; config: Platform['config'] },
): Promise<Linked> {
  const isAuthIssuer = config.jwt.issuer === issuer
  const stored = await findIdentity(tx, { issuer, subject, isAuthIssuer })
  const [name, picture, email] = [nameIn(claims), pictureIn(claims.picture), verifiedEmailIn(claims)]
  const externalId = isAuthIssuer ? externalIdOf(subject) : null
  const byExternalId = async () => (externalId === null ? null : lockHumanByExternalId(tx, externalId))
  const known = stored?.isCurrent ? stored.identity.humanId : await byExternalId()
  const before = stored?.isCurrent ? stored.identity : null
  const changes = {
    ...(name !== null && name !== (before?.claimedName ?? null) ? { name } : {}),
    ...(picture !== (before?.claimedPicture ?? null) ? { picture } : {}),
    ...(email !== null && email !== before?.claimedEmail && (await isFree(tx, email, known)) ? { email } : {}),
  }
  const humanId = known ?? (await insertHuman(tx, { name: NAMELESS, ...changes, externalId, createdAt: now })).id
  if (known === null) {
    await noteDeed(tx, { ...deedOf(humanId), action: 'createHuman', detail: { by: 'oidc' } })
  } else if (Object.keys(changes).length > 0) {
    await updateHuman(tx, humanId, changes)
    const detail = { by: 'oidc', fields: Object.keys(changes) }
    await noteDeed(tx, { ...deedOf(humanId), action: 'updateHuman', detail })
  }
  const { gaveAdmin, roleChange } = await decideRole(tx, {
    humanId,
    hadGiven: before?.gaveAdmin ?? false,
    claims,
    config,
  })
  const identity: Identity = {
    issuer,
    subject,
    humanId,
    claimedName: name,
    claimedPicture: picture,
    claimedEmail: email,
    gaveAdmin,
    createdAt: before?.createdAt ?? now,
    lastUsedAt: now,
  }
  await saveIdentity(tx, identity, { isNew: stored === null })
  return { humanId, isChanged: known !== null && Object.keys(changes).length > 0, roleChange }
}

/**
 * Finds and locks an account that has signed in before. If the provider also issues the server's JWTs, admins assign
 * accounts to humans by `externalId`. `isCurrent` is false if the account now belongs to another human. If the human
 * was erased, deletes the account's row.
 */
async function findIdentity(
  tx: Tx,
  { issuer, subject, isAuthIssuer }: { issuer: string; subject: string; isAuthIssuer: boolean },
): Promise<{ identity: Identity; isCurrent: boolean } | null> {
  const [row] = await tx.$queryRaw<(Identity & { externalId: string | null; isThere: boolean })[]>`
    SELECT i.*, e."externalId", e."goneAt" IS NULL AS "isThere" FROM "Identity" i JOIN "Entity" e ON e.id = i."humanId"
    WHERE i.issuer = ${issuer} AND i.subject = ${subject} FOR UPDATE OF i FOR SHARE OF e`
  if (row === undefined) return null
  const { externalId, isThere, ...identity } = row
  if (!isThere) {
    await deleteIdentities(tx, identity.humanId)
    return null
  }
  return { identity, isCurrent: !isAuthIssuer || externalId === null || externalId === subject }
}

/**
 * Whether no other human has this email address. Two humans must not share an address, because people can sign in
 * with it.
 */
async function isFree(tx: Tx, email: string, humanId: string | null): Promise<boolean> {
  const owner = await findHumanByEmail(tx, email)
  return owner === null || owner.id === humanId
}

/** Returns the `externalId` for a subject, or null if the subject is not valid as an `externalId`. */
function externalIdOf(subject: string): string | null {
  try {
    return checkExternalId(subject)
  } catch {
    return null
  }
}

/**
 * Grants or revokes the role ADMIN according to the claim of PARLEY_OIDC_ADMIN. Revokes the role only if a claim
 * granted it.
 */
async function decideRole(
  tx: Tx,
  {
    humanId,
    hadGiven,
    claims,
    config,
  }: { humanId: string; hadGiven: boolean; claims: OidcAccount['claims']; config: Platform['config'] },
): Promise<{ gaveAdmin: boolean; roleChange: RoleChange | null }> {
  const { admin } = config.oidc
  if (admin === null) return { gaveAdmin: hadGiven, roleChange: null }
  const isAdmin = hasClaim(claims, admin)
  if (!isAdmin && !hadGiven) return { gaveAdmin: false, roleChange: null }
  const role = isAdmin ? 'ADMIN' : 'MEMBER'
  // A change of role locks the rows of all admins. Most sign-ins change no role, so this is checked first.
  const isSame = (await tx.entity.count({ where: { id: humanId, role } })) > 0
  const roleChange = isSame ? null : await changeRole(tx, { humanId, role, by: null })
  if (roleChange !== null)
    await noteDeed(tx, { ...deedOf(humanId), action: 'updateHuman', detail: { by: 'oidc', role: roleChange.role } })
  return { gaveAdmin: isAdmin && (hadGiven || roleChange !== null), roleChange }
}

/** Returns the actor and the target of a sign-in's audit entry. Both are the human who signs in. */
const deedOf = (humanId: string) => ({ actorId: humanId, serviceName: null, targetId: humanId })

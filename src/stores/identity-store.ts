import { createHash } from 'node:crypto'
import type { Identity } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** Contains the statements that write the tables "Identity" and "UsedLogoutToken". */

/**
 * Stores the account of a human, or replaces its row.
 * @throws a unique violation if another sign-in has stored the account since this transaction read it
 */
export async function saveIdentity(tx: Tx, identity: Identity, { isNew }: { isNew: boolean }): Promise<void> {
  const { issuer, subject, ...data } = identity
  if (isNew) await tx.identity.create({ data: identity })
  else await tx.identity.update({ where: { issuer_subject: { issuer, subject } }, data })
}

/** Removes the accounts of a human. */
export async function deleteIdentities(tx: Tx, humanId: string): Promise<void> {
  await tx.identity.deleteMany({ where: { humanId } })
}

/** The maximum number of expired tokens that one logout deletes. */
const MOST_EXPIRED_AT_ONCE = 500

/**
 * Marks a logout token as used, and deletes some tokens that have expired. Returns false if the token was already
 * used.
 */
export async function useLogoutToken(tx: Tx, token: { hash: string; expiresAt: Date }, now: Date): Promise<boolean> {
  await tx.$executeRaw`
    DELETE FROM "UsedLogoutToken" WHERE hash IN (
      SELECT hash FROM "UsedLogoutToken" WHERE "expiresAt" <= ${now} ORDER BY "expiresAt" LIMIT ${MOST_EXPIRED_AT_ONCE}
      FOR UPDATE SKIP LOCKED)`
  const inserted = await tx.$executeRaw`
    INSERT INTO "UsedLogoutToken" (hash, "expiresAt") VALUES (${token.hash}, ${token.expiresAt}) ON CONFLICT DO NOTHING`
  return inserted === 1
}

/** The session at an identity provider that a logout ends, or all sessions of an account there. */
export interface ProviderLogin {
  issuer: string
  provider: string
  /** The id of the session at the provider; null for all sessions of the account. */
  sid: string | null
  subject: string
  /** The time at which the provider issued the token, by the provider's clock, in seconds. */
  issuedAt: number
}

/**
 * The time for which the record of a logout is kept. It is longer than the time between the issue of an ID token and
 * the opening of the session.
 */
const MARK_MS = 15 * 60_000

const markOf = ({ issuer, provider }: ProviderLogin, ended: { sid: string } | { subject: string }) =>
  createHash('sha256')
    .update(JSON.stringify(['ended', issuer, provider, ended]))
    .digest('hex')

/**
 * Locks the record of a logout until the transaction ends. A concurrent logout and sign-in wait for each other, so
 * that one of them sees the other.
 */
async function lockMark(tx: Tx, mark: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${mark}, 0))`
}

/**
 * Records a logout, so that a sign-in that started earlier opens no session. The caller then deletes the open
 * sessions.
 */
export async function markLoggedOut(tx: Tx, login: ProviderLogin): Promise<void> {
  const { sid, subject, issuedAt } = login
  const mark = markOf(login, sid === null ? { subject } : { sid })
  await lockMark(tx, mark)
  const expiresAt = new Date(issuedAt * 1000 + MARK_MS)
  await tx.$executeRaw`
    INSERT INTO "UsedLogoutToken" (hash, "expiresAt") VALUES (${mark}, ${expiresAt})
    ON CONFLICT (hash) DO UPDATE SET "expiresAt" = greatest("UsedLogoutToken"."expiresAt", EXCLUDED."expiresAt")`
}

/**
 * Whether a logout has ended a sign-in before its session was opened. This is a logout of this session, or of the
 * whole account after the ID token was issued.
 */
export async function isLoggedOut(tx: Tx, login: ProviderLogin, now: Date): Promise<boolean> {
  const { sid, subject, issuedAt } = login
  const ofSession = sid === null ? [] : [{ mark: markOf(login, { sid }), from: now }]
  const marks = [...ofSession, { mark: markOf(login, { subject }), from: new Date(issuedAt * 1000 + MARK_MS) }]
  for (const { mark } of marks.toSorted((a, b) => (a.mark < b.mark ? -1 : 1))) await lockMark(tx, mark)
  const found = await tx.usedLogoutToken.count({
    where: { OR: marks.map(({ mark, from }) => ({ hash: mark, expiresAt: { gte: from } })) },
  })
  return found > 0
}

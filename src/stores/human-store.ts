import type { Config } from '../config.ts'
import { type Entity, Prisma } from '../generated/prisma/client.ts'
import type { HumanRole } from '../generated/prisma/enums.ts'
import { emailKeyOf } from '../lib/email.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import { checkRoleChange, leavesNoAdmin } from '../rules/roles.ts'
import { unpublished } from './change-store.ts'
import { insertEntity, setRole, updateLivingHuman } from './entity-store.ts'
import { deleteSessions } from './session-store.ts'
import { deleteInvitations, revokeAdminTokensOf } from './token-store.ts'

/**
 * SQL condition: every human may see the id, name, kind and picture of every other human. `directory` is the value of
 * PARLEY_DIRECTORY.
 */
export function showsEverybodySql(directory: Config['directory']): Prisma.Sql {
  if (directory !== null) return directory === 'everyone' ? Prisma.sql`true` : Prisma.sql`false`
  return Prisma.sql`EXISTS (SELECT 1 FROM "ServerDefault" d WHERE d.name = 'directory' AND d.value = 'everyone')`
}

// Writes the rows of humans, and everything that depends on their roles. `operation/erasure.ts` erases humans.

/** The consequences of a role change. After the commit, the caller publishes them with `publishRoleChange`. */
export interface RoleChange {
  humanId: string
  role: HumanRole
  /** The sessions that were ended: those of the human, and those in which the human acted as somebody else. */
  endedSessionIds: string[]
  /**
   * The access tokens that were revoked. If the human lost the role ADMIN, these are the tokens that the human had
   * created as an admin; otherwise there are none.
   */
  revokedTokenIds: string[]
  /** Whether the change leaves nobody with the role ADMIN. */
  leavesNoAdmin: boolean
}

/**
 * Changes the role of a human. Ends the human's sessions, because their rights have changed. If the human loses the
 * role ADMIN, also ends the sessions in which the human acts as somebody else, and revokes the tokens that the human
 * created as an admin. In this case, also deletes the invitations that the human created for other people.
 *
 * @param by the human who makes the change; null for the operator, or for an identity provider that assigns roles
 * @returns null if the human already has this role or does not exist
 * @throws ForbiddenError if `by` is a human and the last person with the role ADMIN would lose the role
 */
export async function changeRole(
  tx: Tx,
  { humanId, role, by }: { humanId: string; role: HumanRole; by: string | null },
): Promise<RoleChange | null> {
  // Locks the admins in the order of their ids. If two admins revoke each other's role, one request waits for the
  // other, and only one succeeds.
  const admins = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "Entity" WHERE role = 'ADMIN' AND "goneAt" IS NULL ORDER BY id FOR UPDATE`
  const adminIds = admins.map(({ id }) => id)
  if (adminIds.includes(humanId) === (role === 'ADMIN')) return null
  checkRoleChange({ humanId, role, by }, adminIds)
  if (!(await setRole(tx, humanId, role))) return null
  const revokedTokenIds = role === 'ADMIN' ? [] : await revokeAdminTokensOf(tx, humanId)
  if (role !== 'ADMIN') await deleteInvitations(tx, { inviterId: humanId, humanId: { not: humanId } })
  const ended = [
    { scope: 'HUMAN' as const, viewerId: humanId },
    { actingAdminId: humanId },
    { tokenId: { in: revokedTokenIds } },
  ]
  return {
    humanId,
    role,
    endedSessionIds: await deleteSessions(tx, { OR: ended }),
    revokedTokenIds,
    leavesNoAdmin: leavesNoAdmin({ humanId, role }, adminIds),
  }
}

export type NewHuman = Pick<Entity, 'name' | 'createdAt'> &
  Partial<Pick<Entity, 'externalId' | 'picture' | 'email' | 'role'>>

export async function insertHuman(tx: Tx, human: NewHuman): Promise<Entity> {
  return insertEntity(tx, { ...human, id: newId('hum'), kind: 'HUMAN' })
}

/** Changes to a human. Absent fields stay unchanged. `changeRole` changes the role. */
export interface HumanChanges
  extends Partial<Pick<Entity, 'name' | 'externalId' | 'email' | 'picture' | 'timeZone' | 'sharePresence'>> {
  budget?: Prisma.InputJsonObject | typeof Prisma.DbNull
}

/** Changes a human. Returns null if the human does not exist or was erased. */
export async function updateHuman(tx: Tx, id: string, changes: HumanChanges): Promise<Entity | null> {
  return updateLivingHuman(tx, id, changes)
}

/**
 * Locks a human until the end of the transaction. Returns null if the human does not exist or was erased. Set
 * `isShown` if the name or picture changes, because spaces show these. In that case, `change` is the key of the job
 * that publishes the change if this process dies before it can (change-store.ts).
 */
export async function lockHuman(
  tx: Tx,
  id: string,
  { isShown }: { isShown: boolean },
): Promise<(Pick<Entity, 'role' | 'budget'> & { change: string | null }) | null> {
  const job = isShown ? unpublished('human', Prisma.sql`SELECT ${id}::text AS id, ${id}::text AS "humanId"`) : null
  const [human] = await tx.$queryRaw<Pick<Entity, 'role' | 'budget'>[]>`
    ${job === null ? Prisma.empty : Prisma.sql`WITH publication AS (${job.enqueueSql})`}
    SELECT role, budget FROM "Entity" WHERE id = ${id} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR NO KEY UPDATE`
  return human === undefined ? null : { ...human, change: job?.change ?? null }
}

/** Finds and locks the human with this `externalId`. */
export async function lockHumanByExternalId(tx: Tx, externalId: string): Promise<string | null> {
  const [human] = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "Entity" WHERE "externalId" = ${externalId} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR UPDATE`
  return human?.id ?? null
}

export interface HumanWithEmail {
  id: string
  name: string
  email: string
}

/** Returns the human with this email address, ignoring case. */
export async function findHumanByEmail(tx: Tx, email: string): Promise<HumanWithEmail | null> {
  const [found] = await tx.$queryRaw<HumanWithEmail[]>`
    SELECT id, name, email FROM "Entity" WHERE lower(email) = ${emailKeyOf(email)} AND "goneAt" IS NULL`
  return found ?? null
}

import { type McpServer, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { RunRequesters } from '../rules/person-of-run.ts'
import { saveServerAuthorization } from './tool-store.ts'

// Contains the statements that write the table "McpPersonAuthorization". `tool-store.ts` writes the authorizations of
// the MCP servers themselves.

/**
 * Identifies an authorization at an MCP server of an agent. With `humanId`, it is the authorization of this person.
 * Without `humanId`, it is the authorization of the server itself.
 */
export interface AuthorizationKey extends Pick<McpServer, 'agentId' | 'name' | 'url'> {
  humanId?: string
}

/**
 * Returns the encrypted authorization, or null if there is none, or if the server now has another URL or `oauth`
 * setting.
 */
export async function readAuthorization(tx: Tx, key: AuthorizationKey): Promise<string | null> {
  const { agentId, name, url, humanId } = key
  const [row] =
    humanId === undefined
      ? await tx.$queryRaw<{ sealed: string | null }[]>`
          SELECT "oauthSealed" AS sealed FROM "McpServer"
          WHERE "agentId" = ${agentId} AND name = ${name} AND url = ${url} AND oauth IN ('SERVER', 'PERSON')`
      : await tx.$queryRaw<{ sealed: string | null }[]>`
          SELECT p.sealed FROM "McpPersonAuthorization" p
            JOIN "McpServer" s ON s."agentId" = p."agentId" AND s.name = p.name AND s.url = p.url AND s.oauth = 'PERSON'
          WHERE p."agentId" = ${agentId} AND p.name = ${name} AND p.url = ${url} AND p."humanId" = ${humanId}`
  return row?.sealed ?? null
}

/**
 * Locks an authorization. The caller has already locked the agent's row. Returns null if the server was removed or
 * now has another URL or `oauth` setting, or if the person was erased.
 */
export async function lockAuthorization(tx: Tx, key: AuthorizationKey): Promise<{ sealed: string | null } | null> {
  const { agentId, name, url, humanId } = key
  const [server] = await tx.$queryRaw<{ sealed: string | null; oauth: string }[]>`
    SELECT "oauthSealed" AS sealed, oauth FROM "McpServer"
    WHERE "agentId" = ${agentId} AND name = ${name} AND url = ${url} AND oauth IN ('SERVER', 'PERSON') FOR UPDATE`
  if (server === undefined) return null
  if (humanId === undefined) return server
  const there = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Entity" WHERE id = ${humanId} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR SHARE`
  if (server.oauth !== 'PERSON' || there.length === 0) return null
  const [own] = await tx.$queryRaw<{ sealed: string }[]>`
    SELECT sealed FROM "McpPersonAuthorization"
    WHERE "agentId" = ${agentId} AND name = ${name} AND url = ${url} AND "humanId" = ${humanId}`
  return { sealed: own?.sealed ?? null }
}

/** Stores an authorization that the caller has locked. */
export async function saveAuthorization(tx: Tx, key: AuthorizationKey, sealed: string): Promise<void> {
  const { agentId, name, url, humanId } = key
  if (humanId === undefined) await saveServerAuthorization(tx, { agentId, name }, sealed)
  else
    await tx.$executeRaw`
      INSERT INTO "McpPersonAuthorization" ("agentId", name, "humanId", url, sealed)
      VALUES (${agentId}, ${name}, ${humanId}, ${url}, ${sealed})
      ON CONFLICT ("agentId", name, "humanId") DO UPDATE SET url = EXCLUDED.url, sealed = EXCLUDED.sealed`
}

/** Deletes the authorizations of a person at all servers. */
export async function deleteAuthorizationsOf(tx: Tx, humanId: string): Promise<void> {
  await tx.mcpPersonAuthorization.deleteMany({ where: { humanId } })
}

/**
 * Deletes the authorizations of people at servers that the agent no longer uses with the same URL and the setting
 * PERSON.
 */
export async function deleteUnusedAuthorizations(tx: Tx, agentId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "McpPersonAuthorization" p WHERE p."agentId" = ${agentId} AND NOT EXISTS (
      SELECT 1 FROM "McpServer" s WHERE s."agentId" = p."agentId" AND s.name = p.name AND s.url = p.url AND s.oauth = 'PERSON')`
}

/** Returns the facts that determine whose authorization a run may use, or null if the run was deleted. */
export async function readRunRequesters(tx: Tx, runId: string): Promise<RunRequesters | null> {
  // A human's message is the root of the runs that it starts. Repeated runs, plans and services have other roots, and
  // chain turns and delegations set `wokenBy`. If the count differs from `inboxSize`, some events of the cycle were
  // deleted or belong to another cycle by now.
  const ofAsker = (by: 'r' | 'e') => {
    const row = Prisma.raw(by)
    return Prisma.sql`coalesce(jsonb_typeof(${row}."wokenBy"), 'null') = 'null' AND ${row}."rootId" = m.id AND m."rootId" = m.id
      AND m."senderId" = ANY(r.askers)`
  }
  const [run] = await tx.$queryRaw<RunRequesters[]>`
    SELECT r.askers,
      EXISTS (
        SELECT 1 FROM "Message" m WHERE (m.acted OR m."actingAdminId" IS NOT NULL) AND m.id IN (
          SELECT r."triggerMessageId" UNION SELECT r."rootId"
          UNION SELECT e."messageId" FROM "InboxEvent" e WHERE e."runId" = r.id
          UNION SELECT e."rootId" FROM "InboxEvent" e WHERE e."runId" = r.id)) AS "isActed",
      CASE r."triggerType"
        WHEN 'SPACE_MESSAGE' THEN EXISTS (SELECT 1 FROM "Message" m WHERE m.id = r."triggerMessageId" AND ${ofAsker('r')})
        WHEN 'INBOX' THEN (
          SELECT count(*) > 0 AND count(*) = coalesce((r.state->>'inboxSize')::int, 0)
            AND coalesce(bool_and(coalesce(e.type = 'SPACE_MESSAGE' AND ${ofAsker('e')}, false)), false)
          FROM "InboxEvent" e LEFT JOIN "Message" m ON m.id = e."messageId" WHERE e."runId" = r.id)
        ELSE false
      END AS "isOwn"
    FROM "Run" r WHERE r.id = ${runId}`
  return run ?? null
}

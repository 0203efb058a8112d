import type { Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "AgentTool" and "McpServer".

export async function insertTools(tx: Tx, tools: Prisma.AgentToolCreateManyInput[]): Promise<void> {
  await tx.agentTool.createMany({ data: tools })
}

/** Replaces the tools of an agent. */
export async function replaceToolRows(
  tx: Tx,
  agentId: string,
  tools: Prisma.AgentToolCreateManyInput[],
): Promise<void> {
  await tx.agentTool.deleteMany({ where: { agentId } })
  await insertTools(tx, tools)
}

export async function insertMcpServers(tx: Tx, servers: Prisma.McpServerCreateManyInput[]): Promise<void> {
  await tx.mcpServer.createMany({ data: servers })
}

/** Replaces the MCP servers of an agent. */
export async function replaceMcpServerRows(
  tx: Tx,
  agentId: string,
  servers: Prisma.McpServerCreateManyInput[],
): Promise<void> {
  await tx.mcpServer.deleteMany({ where: { agentId } })
  await insertMcpServers(tx, servers)
}

/** Identifies an MCP server of an agent. */
interface McpServerKey {
  agentId: string
  name: string
}

/** Marks the tools that a server listed most recently as trusted. */
export async function trustListing(tx: Tx, { agentId, name }: McpServerKey): Promise<void> {
  await tx.$executeRaw`
    UPDATE "McpServer" SET fingerprints = fingerprints || coalesce((
      SELECT jsonb_object_agg(tool->>'name', tool->>'fingerprint') FROM jsonb_array_elements(listing) tool), '{}')
    WHERE "agentId" = ${agentId} AND name = ${name}`
}

/**
 * Stores the tools that a server currently lists. `seen`: the fingerprints that become trusted if the server has not
 * listed tools before.
 */
export async function saveListing(
  tx: Tx,
  { agentId, name }: McpServerKey,
  { listing, seen }: { listing: readonly object[]; seen: object },
): Promise<void> {
  await tx.$executeRaw`
    UPDATE "McpServer" SET listing = ${jsonbText(listing)}::jsonb,
      fingerprints = CASE WHEN listing IS NULL AND fingerprints = '{}' THEN ${jsonbText(seen)}::jsonb ELSE fingerprints END
    WHERE "agentId" = ${agentId} AND name = ${name}`
}

/** Stores the reasons why a server, or some of its tools, cannot be used. */
export async function saveProblems(
  prisma: Pick<Tx, '$executeRaw'>,
  { agentId, name }: McpServerKey,
  problems: readonly object[],
): Promise<void> {
  await prisma.$executeRaw`
    UPDATE "McpServer" SET problems = ${jsonbText(problems)}::jsonb WHERE "agentId" = ${agentId} AND name = ${name}`
}

/** Stores the encrypted authorization of the server itself, as opposed to that of a person. */
export async function saveServerAuthorization(tx: Tx, { agentId, name }: McpServerKey, sealed: string): Promise<void> {
  await tx.$executeRaw`UPDATE "McpServer" SET "oauthSealed" = ${sealed} WHERE "agentId" = ${agentId} AND name = ${name}`
}

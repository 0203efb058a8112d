import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'

/** Contains the statements that write the tables "AgentVersion" and "AgentDraft". */

/** The author of a change, and the author's note about it. */
export interface ChangeNote {
  /** The human who made the change; null for the operator. */
  authorId: string | null
  note: string | null
}

export interface NewVersion extends ChangeNote {
  agentId: string
  number: number
  definition: Prisma.InputJsonValue
  createdAt: Date
}

/** The maximum number of versions that are kept per agent. */
const MOST_VERSIONS = 1000

/** Writes a version, and deletes the oldest one if there are too many. Returns the id of the new version. */
export async function insertVersion(tx: Tx, version: NewVersion): Promise<string> {
  const id = newId('agv')
  const { agentId, number } = version
  await tx.agentVersion.create({ data: { id, ...version } })
  await tx.agentVersion.deleteMany({ where: { agentId, number: { lte: number - MOST_VERSIONS } } })
  return id
}

export interface NewDraft extends ChangeNote {
  agentId: string
  baseVersion: number
  changes: Prisma.InputJsonValue
  headersSealed: string | null
  definition: Prisma.InputJsonValue
  createdAt: Date
}

/** Writes the draft of an agent. Replaces an earlier draft. */
export async function writeDraft(tx: Tx, draft: NewDraft): Promise<void> {
  const { agentId, ...rest } = draft
  const id = newId('agv')
  await tx.agentDraft.upsert({ where: { agentId }, create: { agentId, id, ...rest }, update: { id, ...rest } })
}

export async function deleteDraft(tx: Tx, agentId: string): Promise<void> {
  await tx.agentDraft.deleteMany({ where: { agentId } })
}

/**
 * SQL for a column of a run `r` of an agent `a`. The value is the definition with which the run started, if the agent
 * has changed since then and that version is still stored. Otherwise it is null.
 */
export const PINNED_DEFINITION_SQL = Prisma.sql`(
  SELECT v.definition FROM "AgentVersion" v
  WHERE r."agentVersion" <> a.version AND v."agentId" = a.id AND v.number = r."agentVersion")`

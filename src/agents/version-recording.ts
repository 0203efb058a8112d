import { isDeepStrictEqual } from 'node:util'
import type { Viewer } from '../access/viewer.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { updateAgent } from '../stores/agent-store.ts'
import { type ChangeNote, insertVersion } from '../stores/version-store.ts'
import { type AgentDefinition, readDefinition } from './agent-definition.ts'

/** A change to an agent, as it appears in the list of the agent's versions. */
export interface Change extends ChangeNote {
  at: Date
}

export const authorOf = (viewer: Viewer, note: string | null): ChangeNote => ({
  authorId: viewer.scope === 'HUMAN' ? viewer.id : null,
  note,
})

/** An agent whose row the caller has locked. */
interface LockedAgent {
  id: string
  version: number
  createdAt: Date
}

/**
 * Executes a change to an agent, and records the resulting definition as a version if it differs from the last one.
 * Returns the result, and the id of the agent's version.
 */
export async function asVersion<T>(
  tx: Tx,
  { id: agentId, version, createdAt }: LockedAgent,
  change: Change,
  work: () => Promise<T>,
): Promise<{ result: T; versionId: string }> {
  const before = await readDefinition(tx, agentId)
  const key = { agentId, number: version }
  const last = await tx.agentVersion.findUnique({ where: { agentId_number: key }, select: { id: true } })
  // The agent was created before agents had versions. Its runs continue with its former definition.
  const definition = before as unknown as Prisma.InputJsonValue
  const lastId = last?.id ?? (await insertVersion(tx, { ...key, authorId: null, note: null, createdAt, definition }))
  const result = await work()
  const after = await readDefinition(tx, agentId)
  if (isDeepStrictEqual(before, after)) return { result, versionId: lastId }
  return { result, versionId: await addVersion(tx, { agentId, number: version + 1, definition: after }, change) }
}

/** Records a definition as a version of an agent. Returns the version's id. */
export async function addVersion(
  tx: Tx,
  { agentId, number, definition: defined }: { agentId: string; number: number; definition: AgentDefinition },
  { at: createdAt, ...note }: Change,
): Promise<string> {
  const definition = defined as unknown as Prisma.InputJsonValue
  await updateAgent(tx, agentId, { version: number })
  return insertVersion(tx, { agentId, number, ...note, definition, createdAt })
}

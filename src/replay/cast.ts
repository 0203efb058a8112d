import { randomBytes } from 'node:crypto'
import { inputOf } from '../agents/agent-definition.ts'
import { importSpace } from '../operation/import.ts'
import { FORMAT, FORMAT_VERSION } from '../operation/moving.ts'
import { restoreGrants } from '../stores/grant-store.ts'
import { insertGoals, insertMemories } from '../stores/knowledge-store.ts'
import { ADMIN, MOST_RUNS, withChanges } from './acting.ts'
import { grantAtBeginning, spaceChanges } from './changes.ts'
import type { Recording } from './recording.ts'
import { beginOf, firstMembers } from './schedule.ts'
import type { PlayOptions, World } from './world.ts'

/** Returns the name of every model that a recorded or changed agent can call. */
export function modelNamesOf({ steps, castLines, versions }: Recording, { changes }: PlayOptions): Set<string> {
  const agents = castLines.filter(({ table }) => table === 'Agent').map(({ row }) => row)
  const definitions = versions.map(({ definition }) => ({ ...definition }) as Record<string, unknown>)
  const all = [...agents, ...definitions, ...(changes?.values() ?? [])]
  return new Set(['demo', ...steps.map(({ model }) => model), ...all.flatMap(modelsIn)])
}

/** Returns the names of an agent's models. */
function modelsIn(row: Record<string, unknown>): string[] {
  const phases = (row['phases'] ?? []) as { model?: string | null }[]
  const names = [row['model'], ...((row['fallbackModels'] ?? []) as unknown[]), ...phases.map(({ model }) => model)]
  return names.filter((name): name is string => typeof name === 'string')
}

/** The settings of a replay's application. It uses a separate folder and the recorded limits. */
export function settingsOf(folder: string, { heading: { limits } }: Recording): Record<string, string> {
  return {
    DATA_DIR: folder,
    PARLEY_ADMIN_TOKEN: randomBytes(24).toString('hex'),
    PARLEY_SECRET_KEY: randomBytes(24).toString('hex'),
    PARLEY_LOG_LEVEL: 'silent',
    PARLEY_CYCLE_REST_MS: '0',
    PARLEY_DELTA_MS: '0',
    PARLEY_DIRECTORY: 'everyone',
    PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
    PARLEY_DEFAULT_MODEL: 'demo',
    PARLEY_MAX_RUN_SECONDS: String(limits.maxRunSeconds),
    PARLEY_TOOL_WAIT_SECONDS: String(limits.toolWaitSeconds),
    PARLEY_APPROVAL_WAIT_SECONDS: String(limits.approvalWaitSeconds),
    PARLEY_MAX_CHAIN_DEPTH: String(limits.maxChainDepth),
    PARLEY_MAX_ROOT_RUNS: String(limits.maxRootRuns),
    PARLEY_MAX_REPLY_STACK: String(limits.maxReplyStack),
    PARLEY_HISTORY_LIMIT: String(limits.historyLimit),
  }
}

/** Writes the people, the agents in their state at the beginning, and the empty space. */
export async function writeCast({ app, recording, options }: World): Promise<void> {
  const { heading, castLines, memories, goals, versions, entities } = recording
  const { createdAt } = recording.space
  const begun = beginOf(recording)
  const { initial } = firstMembers(recording)
  const { initial: settings } = spaceChanges(recording, begun)
  const isFirst = ({ table, row }: Recording['castLines'][number]) => {
    if (table === 'GrantDecision') return Date.parse(String(row['at'])) <= begun
    return table === 'FormerMember' ? false : table !== 'Membership' || initial.includes(String(row['entityId']))
  }
  const lines = castLines.filter(isFirst).map(({ table, row }) => {
    if (table === 'Space')
      return {
        table,
        row: { ...row, ...settings, lastSeq: 0, firstSeq: 1, version: 0, lastPickedId: null, lastPickedJoinedAt: null },
      }
    if (table === 'Agent' && options.isFree !== true) return { table, row: { ...row, ...MOST_RUNS } }
    if (table === 'StandingGrant') return { table, row: grantAtBeginning(row as never, recording, begun) }
    if (table === 'Membership') return { table, row: { ...row, lastReadSeq: 0 } }
    return { table, row }
  })
  const former = recording.formerMembers
    .filter(({ entityId }) => initial.includes(entityId))
    .map(({ entityId, spaceId }) => ({
      table: 'Membership',
      row: { spaceId, entityId, joinedAt: createdAt },
    }))
  // An import skips people and agents without a relation to the space.
  const later = entities
    .filter(({ id }) => !initial.includes(id))
    .map(({ id: entityId }) => ({ table: 'FormerMember', row: { spaceId: heading.spaceId, entityId } }))
  const all = [...lines, ...later, ...former]
  const first = { format: FORMAT, version: FORMAT_VERSION, spaceId: heading.spaceId, at: heading.at }
  const { db, files, config } = app.platform
  await importSpace(
    { db, files, config },
    [first, ...all, { end: true, rows: all.length }].map((line) => JSON.stringify(line)),
  )
  const { prisma } = db
  const live = recording.grants.filter((grant) => {
    const { revokedAt, toolChangedAt } = grantAtBeginning(grant, recording, begun)
    return revokedAt === null && toolChangedAt === null
  })
  await restoreGrants(
    prisma,
    live.map(({ id }) => id),
  )
  const isOld = ({ updatedAt }: { updatedAt: string }) => Date.parse(updatedAt) < begun
  await insertMemories(prisma, memories.filter(isOld) as never)
  await insertGoals(prisma, goals.filter(isOld) as never)
  for (const { id } of entities) {
    if (!id.startsWith('agt_')) continue
    const own = versions.filter(({ agentId }) => agentId === id)
    const then = own.findLast(({ createdAt }) => Date.parse(createdAt) <= begun) ?? own[0]
    const isLast = then === undefined || then === own.at(-1)
    if (isLast && options.changes?.has(id) !== true) continue
    const input = then === undefined || isLast ? { id } : inputOf(id, then.definition)
    await app.domain.agents.update(ADMIN, withChanges(input, options))
  }
}

import type { AuditEntry, Memory, StandingGrant } from '../generated/prisma/client.ts'
import { runIdAt } from '../lib/ids.ts'
import { isObject, type Json, type JsonObject } from '../lib/json.ts'
import { type Recorded, type Recording, UnusableRecordingError } from './recording.ts'

// Changes by people outside of runs. The audit log contains their times. For settings that are not texts, it also
// contains the new values.

type Entry = Recorded<AuditEntry>

/** The settings of a space that affect routing, with their default values. */
const SPACE_SETTINGS = { routing: 'BROADCAST', adminAgentId: null, mentionNarrows: false }
/** The audited actions by which people change what an agent knows. */
const OF_KNOWLEDGE: Record<string, string> = {
  setMemories: 'memories',
  deleteMemories: 'memories',
  setGoals: 'goals',
  deleteGoals: 'goals',
  updatePlan: 'plans',
  deletePlan: 'plans',
  forgetCycle: 'consciousness',
  forgetSpace: 'consciousness',
  resetConsciousness: 'consciousness',
  removeInboxEvent: 'inbox',
}

const inOrder = (entries: readonly Entry[]) => entries.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
const isAfter = (at: string | null, begun: number): boolean => at !== null && Date.parse(at) > begun

/** Returns the values of these fields that an audit entry contains. */
function valuesIn({ detail }: Entry, names: readonly string[]): JsonObject {
  const given = (isObject(detail) ? detail : {}) as Record<string, Json>
  return Object.fromEntries(names.flatMap((name) => (name in given ? [[name, given[name] as Json]] : [])))
}

/** Returns the changes of the space's settings since the space began, and the settings before the first change. */
export function spaceChanges(
  { audit, space }: Recording,
  begun: number,
): { initial: JsonObject; changes: { at: string; input: JsonObject }[] } {
  const own = inOrder(audit).filter(({ targetId, action }) => targetId === space.id && OF_SPACE.includes(action))
  const names = Object.keys(SPACE_SETTINGS)
  const changes = own
    .filter(({ at, action }) => action === 'updateSpace' && isAfter(at, begun))
    .map((entry) => ({ at: entry.at, input: valuesIn(entry, names) }))
    .filter(({ input }) => Object.keys(input).length > 0)
  const before = own.filter(({ at }) => !isAfter(at, begun))
  const isMade = before.some(({ action }) => action === 'createSpace')
  const known = Object.assign(isMade ? { ...SPACE_SETTINGS } : {}, ...before.map((entry) => valuesIn(entry, names)))
  const initial: JsonObject = {}
  for (const { at, input } of changes)
    for (const name of Object.keys(input)) {
      if (!Object.hasOwn(known, name))
        throw new UnusableRecordingError(
          `The ${name} of the space before ${at} is unknown: the audit log no longer has the entry that recorded it (PARLEY_KEEP_AUDIT_DAYS).`,
        )
      initial[name] = known[name]
    }
  return { initial, changes }
}

const OF_SPACE = ['createSpace', 'updateSpace']

/** Returns the times at which somebody paused or resumed an agent. */
export function pausesOf(
  { audit, entities }: Recording,
  begun: number,
): { at: string; agentId: string; paused: boolean }[] {
  const agents = new Set(entities.map(({ id }) => id))
  return inOrder(audit).flatMap((entry) => {
    const { paused } = valuesIn(entry, ['paused'])
    if (entry.action !== 'updateAgent' || typeof paused !== 'boolean' || !isAfter(entry.at, begun)) return []
    return agents.has(entry.targetId ?? '') ? [{ at: entry.at, agentId: String(entry.targetId), paused }] : []
  })
}

const NEVER = '9999-01-01T00:00:00.000Z'

/** Returns the state of a standing grant when the space began, or when it was proposed. */
export function grantAtBeginning(
  grant: Recorded<StandingGrant>,
  { calls, heading }: Pick<Recording, 'calls' | 'heading'>,
  begun: number,
): Recorded<StandingGrant> {
  const then = (at: string | null) => (isAfter(at, begun) ? null : at)
  const covered = calls.filter(({ grantId }) => grantId === grant.id)
  const amounts = covered.map(({ input }) => {
    const value = isObject(input) && grant.amountProperty !== null ? input[grant.amountProperty] : 0
    return typeof value === 'number' ? value : 0
  })
  return {
    ...grant,
    usedCalls: Math.max(0, grant.usedCalls - covered.length),
    usedAmount: Math.max(
      0,
      amounts.reduce((left, amount) => left - amount, grant.usedAmount),
    ),
    activeSince: then(grant.activeSince),
    deniedAt: then(grant.deniedAt),
    revokedAt: then(grant.revokedAt),
    toolChangedAt: then(grant.toolChangedAt),
    // The clock of a replay's database shows the time of the replay, so a grant that had not expired when it was
    // recorded must not expire.
    expiresAt: Date.parse(grant.expiresAt) > Date.parse(heading.at) ? NEVER : grant.expiresAt,
    revokedById: then(grant.revokedAt) === null ? null : grant.revokedById,
  }
}

/** The maximum difference between the times of a row and of its audit entry. */
const SAME_MS = 1000
const isSameTime = (at: string | null, other: string | null) =>
  at !== null && other !== null && Math.abs(Date.parse(at) - Date.parse(other)) < SAME_MS

/** Returns the memories that people have written since the space began, with their last values. */
export function memoriesWritten({ memories, calls }: Recording, begun: number): Recorded<Memory>[] {
  const isByRun = ({ agentId, key, updatedAt }: Recorded<Memory>) =>
    calls.some(
      (call) =>
        call.agentId === agentId &&
        isSameTime(call.settledAt, updatedAt) &&
        JSON.stringify(call.input).includes(JSON.stringify(key)),
    )
  return memories.filter((memory) => isAfter(memory.updatedAt, begun) && !isByRun(memory))
}

/** Returns sentences about changes that people made during the recording and that a replay does not repeat. */
export function gapsOf(recording: Recording, begun: number): string[] {
  const { audit, space, entities } = recording
  const nameOf = (id: string | null) => JSON.stringify(entities.find((one) => one.id === id)?.name ?? id ?? '')
  const isNew = ({ id }: Recorded<Memory>) => id.slice(4) >= runIdAt(begun).slice(4)
  const written = memoriesWritten(recording, begun).filter(isNew)
  const isRepeated = ({ action, at, targetId }: Entry) =>
    action === 'setMemories' && written.some((one) => one.agentId === targetId && isSameTime(one.updatedAt, at))
  const gaps = inOrder(audit).flatMap((entry) => {
    const { action, at, targetId, detail } = entry
    if (!isAfter(at, begun) || isRepeated(entry)) return []
    const knowledge = OF_KNOWLEDGE[action]
    if (knowledge !== undefined)
      return [
        `At ${at} somebody changed the ${knowledge} of ${nameOf(targetId)} outside of runs (${action}). The recording does not say how, so the replay does not repeat the change.`,
      ]
    if (action !== 'updateSpace' || targetId !== space.id) return []
    const { fields = [] } = (detail ?? {}) as { fields?: string[] }
    return fields
      .filter((field) => field !== 'id' && !Object.hasOwn(SPACE_SETTINGS, field))
      .map(
        (field) =>
          `At ${at} somebody changed the ${field} of the space. The recording has only the latest one, which the replay uses from the beginning.`,
      )
  })
  return [...new Set(gaps)]
}

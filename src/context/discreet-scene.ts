import { marksOf, union } from '../confidentiality/marks.ts'
import { RULES, type World } from '../confidentiality/rules.ts'
import { readWorld } from '../confidentiality/world.ts'
import type { Database } from '../platform/db.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { Knowledge, SceneReading, SceneRun, SceneSpace } from './scene-reading.ts'

/** A scene without the content that its run may not read. */
export interface DiscreetScene {
  spaces: SceneSpace[]
  otherRuns: SceneRun[]
  notes: Pick<Knowledge, 'memories' | 'goals' | 'plans'>
  withheld: Withheld[]
  /** The run's label, including the labels of the scene's content. */
  label: string[]
}

interface Asked extends Pick<Knowledge, 'memories' | 'goals' | 'plans'> {
  spaces: SceneSpace[]
  otherRuns: SceneRun[]
  worksIn: string | null
  keptMarks: string[]
}

/** Executes further statements only if notes of the agent come from a confidential space. */
export async function discreet(
  { prisma }: Database,
  reading: Pick<SceneReading, 'openTo'>,
  run: ClaimedRun,
  { spaces: all, otherRuns, worksIn, keptMarks, ...noted }: Asked,
): Promise<DiscreetScene> {
  const world = worldOfScene(all)
  const spaces = all.flatMap((space) => spaceFor(run.askers, space, world))
  const recalled = await recall()
  const confidential = marksOf(run).filter((id) => world.isConfidential(id))
  const label = union(run.label, confidential, recalled.label)
  return { ...recalled, spaces, otherRuns: otherRuns.map((other) => runFor(label, other)), label }

  async function recall(): Promise<Pick<DiscreetScene, 'notes' | 'withheld' | 'label'>> {
    const { memories, goals, plans } = noted
    if (keptMarks.length === 0) return { notes: { memories, goals, plans }, withheld: [], label: [] }
    const now = await readWorld(prisma, { marks: keptMarks, spaceIds: worksIn === null ? [] : [worksIn] })
    // Notes that were written after the scene was read stay hidden if they come from other confidential spaces.
    const openIds = keptMarks.filter((id) => RULES.mayRecall(RULES.labelOf([id], now), worksIn, now))
    const open = await reading.openTo(run.agentId, openIds)
    const marks = union(...Object.values(open.notes).flatMap((notes) => notes.map((note) => note.marks)))
    return { notes: open.notes, withheld: open.withheld, label: RULES.labelOf(marks, now) }
  }
}

/**
 * Returns the facts of a scene that the confidentiality rules need: which spaces are confidential, and which
 * requesters are members.
 */
function worldOfScene(spaces: readonly SceneSpace[]): World {
  const byId = new Map(spaces.map((space) => [space.id, space]))
  return {
    isConfidential: (spaceId) => byId.get(spaceId)?.confidential === true,
    humansOf: (spaceId) => new Set(byId.get(spaceId)?.askersThere),
  }
}

/**
 * Hides the space if one of the run's requesters is not a member. For a run without requesters, keeps only the space's
 * name.
 */
function spaceFor(askers: readonly string[], space: SceneSpace, world: World): SceneSpace[] {
  if (RULES.mayKnow(askers, space.id, world)) return [space]
  return askers.length > 0 ? [] : [{ ...space, members: [], size: 0 }]
}

function runFor(ownLabel: readonly string[], other: SceneRun): SceneRun {
  if (RULES.mayCompare(other.label ?? [], ownLabel)) return other
  return {
    ...other,
    triggerType: 'INBOX',
    triggerName: null,
    triggerSpaceId: null,
    senderName: null,
    spaceName: null,
    triggerSummary: '',
    calls: null,
    label: null,
  }
}

import { marksOf, take, union } from '../confidence/marks.ts'
import { RULES, type World } from '../confidence/rules.ts'
import { readWorld } from '../confidence/world.ts'
import type { Run } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { Knowledge, SceneReading, SceneRun, SceneSpace } from './scene-reading.ts'

/** What of a scene is left when what a run may not be shown is taken out; the run takes the label of what it is shown. */
export interface DiscreetScene {
  spaces: SceneSpace[]
  otherRuns: SceneRun[]
  notes: Pick<Knowledge, 'memories' | 'goals' | 'plans'>
  withheld: Withheld[]
}

interface Asked extends Pick<Knowledge, 'memories' | 'goals' | 'plans'> {
  spaces: SceneSpace[]
  otherRuns: SceneRun[]
  worksIn: string | null
  keptMarks: string[]
}

/** Statements of its own only where something that its agent has noted comes from a confidential space. */
export async function discreet(
  { prisma }: Database,
  reading: Pick<SceneReading, 'openTo'>,
  run: Run,
  { spaces: all, otherRuns, worksIn, keptMarks, ...noted }: Asked,
): Promise<DiscreetScene> {
  const world = worldOfScene(all)
  const spaces = all.flatMap((space) => spaceFor(run.askers, space, world))
  take(run, { label: marksOf(run).filter((id) => world.isConfidential(id)) })
  const { notes, withheld } = await recalled()
  return { spaces, otherRuns: otherRuns.map((other) => runFor(run, other)), notes, withheld }

  async function recalled(): Promise<Pick<DiscreetScene, 'notes' | 'withheld'>> {
    const { memories, goals, plans } = noted
    if (keptMarks.length === 0) return { notes: { memories, goals, plans }, withheld: [] }
    const now = await readWorld(prisma, { marks: keptMarks, spaceIds: worksIn === null ? [] : [worksIn] })
    // What is noted meanwhile, and comes from elsewhere, is not open.
    const openIds = keptMarks.filter((id) => RULES.mayRecall(RULES.labelOf([id], now), worksIn, now))
    const open = await reading.openTo(run.agentId, openIds)
    const marks = union(...Object.values(open.notes).flatMap((notes) => notes.map((note) => note.marks)))
    take(run, { label: RULES.labelOf(marks, now) })
    return { notes: open.notes, withheld: open.withheld }
  }
}

/** As far as the scene tells: whether spaces are confidential, and which of its askers are there. */
function worldOfScene(spaces: readonly SceneSpace[]): World {
  const byId = new Map(spaces.map((space) => [space.id, space]))
  return {
    isConfidential: (spaceId) => byId.get(spaceId)?.confidential === true,
    humansOf: (spaceId) => new Set(byId.get(spaceId)?.askersThere),
  }
}

/** For a run that works for somebody who does not belong there it does not exist; for one that works for nobody it is a name. */
function spaceFor(askers: readonly string[], space: SceneSpace, world: World): SceneSpace[] {
  if (RULES.mayKnow(askers, space.id, world)) return [space]
  return askers.length > 0 ? [] : [{ ...space, members: [], size: 0 }]
}

function runFor(own: Run, other: SceneRun): SceneRun {
  if (RULES.mayCompare(other.label ?? [], own.label)) return other
  return {
    ...other,
    ...{ triggerType: 'INBOX', triggerName: null, triggerSpaceId: null, senderName: null, spaceName: null },
    ...{ triggerSummary: '', calls: null, label: null },
  }
}

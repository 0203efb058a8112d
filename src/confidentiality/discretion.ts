import type { Run } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'
import type { Database } from '../platform/db.ts'
import { isKnownTo, type Marks, marksOf, type Provenance } from './marks.ts'
import { type Obstacle, RULES, type Rules } from './rules.ts'
import { type Cleared, type KnownWorld, readWorld } from './world.ts'

/** The reason why an operation was refused, as text for the model. */
export interface Refusal {
  code: 'CONFIDENTIAL'
  message: string
}

/** A run that is being executed, with its marks (see `Marks`) and requesters. */
export type Carrier = Readonly<Pick<Run, 'agentId'>> & Provenance

export type Clearance =
  | { type: 'cleared'; cleared: Cleared }
  | { type: 'refused'; refusal: Refusal }
  /** The agent is not a member of the space, so the error must not describe the space. */
  | { type: 'foreign' }

/**
 * The confidentiality guard decides what a run may do with its content, based on the current state of the spaces. Each
 * method executes one statement.
 */
export interface Discretion {
  /** Decides whether the run may post its content in the space, or delegate its content to an agent there. */
  toSpeak(carrier: Carrier, spaceId: string): Promise<Clearance>
  /** Returns why the run may not enter or read a confidential space; null if this is allowed. */
  toEnter(carrier: Carrier, spaceId: string): Promise<Refusal | null>
  /**
   * Returns those of the other runs whose details the run may see according to their current marks. The caller must
   * read the details before this call.
   */
  toCompare(carrier: Carrier, runIds: readonly string[]): Promise<ReadonlySet<string>>
  /** Returns why the run may not send its content to a tool on another server; null if this is allowed. */
  toLeave(carrier: Marks, tool: { mayReceiveConfidential: boolean }): Promise<Refusal | null>
}

export function createDiscretion({ prisma }: Database, rules: Rules = RULES): Discretion {
  return {
    async toSpeak(carrier, spaceId) {
      const marks = marksOf(carrier)
      const world = await readWorld(prisma, { marks, spaceIds: [spaceId], memberId: carrier.agentId })
      const space = world.spaces.get(spaceId)
      if (space?.isOwn !== true) return { type: 'foreign' }
      const label = rules.labelOf(marks, world)
      const obstacle = rules.obstacle(label, spaceId, world)
      if (!rules.mayEnter(carrier.askers, spaceId, world)) return { type: 'refused', refusal: NOT_FOR_ASKERS }
      if (obstacle !== null) return { type: 'refused', refusal: notHeard(obstacle, spaceId, world) }
      return { type: 'cleared', cleared: { version: space.version, from: label } }
    },
    async toEnter({ askers }, spaceId) {
      const world = await readWorld(prisma, { marks: [], spaceIds: [spaceId] })
      return rules.mayEnter(askers, spaceId, world) ? null : NOT_FOR_ASKERS
    },
    async toCompare(carrier, runIds) {
      if (runIds.length === 0) return new Set()
      const told = await prisma.$queryRaw<{ id: string }[]>`
        SELECT id FROM "Run" WHERE id = ANY(${[...runIds]}::text[]) AND ${isKnownTo(carrier)}`
      return new Set(told.map(({ id }) => id))
    },
    async toLeave(carrier, tool) {
      if (carrier.label.length === 0 || rules.mayLeave(carrier.label, tool)) return null
      const world = await readWorld(prisma, { marks: marksOf(carrier) })
      const label = rules.labelOf(marksOf(carrier), world)
      return rules.mayLeave(label, tool) ? null : notOutside(label, world)
    },
  }
}

const NOT_FOR_ASKERS: Refusal = {
  code: 'CONFIDENTIAL',
  message:
    'That space is confidential, and not all people for whom you work in this run are members: you can neither read nor post in that space in this run. Continue without it.',
}

/** A deleted space has no name. */
const quoted = (name = '') => JSON.stringify(oneLine(name === '' ? 'a deleted space' : name))

function notHeard({ fromId, humanIds }: Obstacle, spaceId: string, { spaces }: KnownWorld): Refusal {
  const [first, ...others] = humanIds
  const space = spaces.get(spaceId)
  const name = oneLine(space?.humans.find(({ id }) => id === first)?.name ?? 'somebody')
  const who = others.length === 0 ? name : `${name} and ${others.length} more`
  return {
    code: 'CONFIDENTIAL',
    message: `You have read content of ${quoted(spaces.get(fromId)?.name)}; ${who}, who is in ${quoted(space?.name)}, may not see it. Nothing was posted. Post only where everyone may see that content, or end your run.`,
  }
}

function notOutside(label: readonly string[], { spaces }: KnownWorld): Refusal {
  const from = label.map((id) => quoted(spaces.get(id)?.name)).join(', ')
  return {
    code: 'CONFIDENTIAL',
    message: `You have read content of ${from}, which may not leave the server, so this tool was not called. Continue without it.`,
  }
}

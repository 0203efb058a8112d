import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, entityChannel, tokenChannel } from '../realtime/topics.ts'
import type { Approvals } from '../runs/approvals.ts'
import { ACTIVE_STATUSES } from '../runs/runs.ts'
import type { Members } from '../spaces/members.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { ERASED } from './erased-human.ts'
import { FIRST_PLACE, type Place, redactSome } from './redaction.ts'

/** The end of a human here. */
export interface Erasure {
  /**
   * Admins only. In one transaction its tokens and memberships end, and it is called "Erased" wherever it is named; with `messages`
   * all that it wrote is emptied, and whoever follows the spaces reads them anew. Then the name is taken out of what the server had
   * written it into; what is still being written by runs that live is looked at again once they are over.
   * @throws ForbiddenError, NotFoundError
   */
  eraseHuman(viewer: Viewer, input: { id: string; messages: boolean }): Promise<{ erasedHumanId: string }>
  /** Goes on where runs lived, or a process died, while a name was taken out. */
  sweep(): Promise<void>
}

interface ErasureParts {
  members: Pick<Members, 'lockSpacesOf' | 'leaveAll'>
  publisher: Pick<SpacePublisher, 'rewritten'>
  approvals: Pick<Approvals, 'recheck'>
}

/** What is still to be done, kept with the human. */
interface Task {
  name: string
  messages: boolean
  /** Null: all has been looked at, but what runs may yet write that lived then. */
  place: Place | null
  living: string[]
  /** Over what these have left. */
  isLastPass: boolean
}

/** So that others come first who wait for the same rows, or for the only connection of an embedded database. */
const PAUSE_MS = 5
/** How long it goes on before the mutation answers, and in one sweep. */
const AT_ONCE_MS = 5000
const A_SWEEP_MS = 30_000

const NO_SUCH_HUMAN = 'There is no such human.'

export function createErasure(platform: Platform, { members, publisher, approvals }: ErasureParts): Erasure {
  const { db, clock, signals } = platform

  async function finish(id: string, forMs: number): Promise<void> {
    const until = clock.now() + forMs
    while (!(await db.transaction((tx) => goOn(tx, id))) && clock.now() < until) await sleep(PAUSE_MS)
  }

  /** Whoever watches agents that work for it reads anew what is said of that. */
  async function tellWatchers(id: string): Promise<void> {
    const where = { triggerSenderId: id, status: { in: ACTIVE_STATUSES } }
    const agents = await db.prisma.run.findMany({ where, select: { agentId: true }, distinct: ['agentId'] })
    for (const { agentId } of agents) await signals.publish(agentChannel(agentId), { type: 'run-changed' })
  }

  return {
    async eraseHuman(viewer, { id, messages }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can erase humans.')
      if (prefixOf(id) !== 'hum') throw new NotFoundError(NO_SUCH_HUMAN)
      const { left, tokenIds, emptied } = await db.transaction(async (tx) => {
        await members.lockSpacesOf(tx, id)
        await rename(tx, id, { messages, goneAt: new Date(clock.now()) })
        const emptied = messages ? await emptyMessages(tx, id) : []
        const left = await members.leaveAll(tx, id)
        return { left, tokenIds: await revokeAll(tx, id, new Date(clock.now())), emptied }
      })
      await Promise.all([
        ...tokenIds.map((tokenId) => signals.publish(tokenChannel(tokenId), { type: 'revoked' })),
        signals.publish(entityChannel(id), { type: 'gone' }),
      ])
      await left.afterCommit()
      // Who is asked by name may belong to no space.
      await approvals.recheck()
      for (const spaceId of emptied) await publisher.rewritten(spaceId)
      await finish(id, AT_ONCE_MS)
      await tellWatchers(id)
      return { erasedHumanId: id }
    },
    async sweep() {
      const unfinished = await db.prisma.$queryRaw<{ id: string }[]>`
        SELECT id FROM "Entity" WHERE kind = 'HUMAN' AND "goneAt" IS NOT NULL AND formerly IS NOT NULL`
      for (const { id } of unfinished) await finish(id, A_SWEEP_MS)
    },
  }
}

/** Its name is kept until it has been taken out everywhere: by it the places are found. */
async function rename(tx: Tx, id: string, { messages, goneAt }: { messages: boolean; goneAt: Date }): Promise<void> {
  const [human] = await tx.$queryRaw<{ name: string }[]>`
    SELECT name FROM "Entity" WHERE id = ${id} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR UPDATE`
  if (human === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
  const runs = await tx.run.findMany({ where: { status: { in: ACTIVE_STATUSES } }, select: { id: true } })
  const task: Task = {
    ...{ name: human.name, messages, place: FIRST_PLACE, isLastPass: false },
    living: runs.map((run) => run.id),
  }
  await tx.entity.update({ where: { id }, data: { goneAt, externalId: null, name: ERASED } })
  await note(tx, id, task)
}

/** Some rows more, one process at a time. @returns true once nothing is left to do, or nothing can be done now */
async function goOn(tx: Tx, id: string): Promise<boolean> {
  const [entity] = await tx.$queryRaw<{ formerly: Task | null }[]>`
    SELECT formerly FROM "Entity" WHERE id = ${id} FOR UPDATE`
  const task = entity?.formerly ?? null
  if (task === null) return true
  const { place = FIRST_PLACE, living = [], isLastPass = false } = task
  if (place === null) return beginLastPass(tx, id, task)
  const next = await redactSome(tx, { id, ...task }, place, isLastPass ? living : null)
  const isOver = next === null && (isLastPass || living.length === 0)
  await note(tx, id, isOver ? null : { ...task, place: next })
  return isOver
}

/** Once all is over that lived then: what it has written by its end is looked at. */
async function beginLastPass(tx: Tx, id: string, task: Task): Promise<boolean> {
  const where = { id: { in: task.living }, status: { in: ACTIVE_STATUSES } }
  if ((await tx.run.count({ where })) > 0) return true
  await note(tx, id, { ...task, place: FIRST_PLACE, isLastPass: true })
  return false
}

async function note(tx: Tx, id: string, task: Task | null): Promise<void> {
  await tx.entity.update({
    where: { id },
    data: { formerly: task === null ? Prisma.DbNull : (toJson(task) as Prisma.InputJsonObject) },
  })
}

/** @returns the spaces in which there were any */
async function emptyMessages(tx: Tx, humanId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ spaceId: string }[]>`
    WITH emptied AS (
      UPDATE "Message" SET parts = '[]' WHERE "senderId" = ${humanId} AND "spaceId" IN (
        SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId}
        UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId})
      RETURNING "spaceId"
    ) SELECT DISTINCT "spaceId" FROM emptied`
  return rows.map(({ spaceId }) => spaceId)
}

async function revokeAll(tx: Tx, humanId: string, revokedAt: Date): Promise<string[]> {
  await tx.invitation.deleteMany({ where: { humanId } })
  const where = { humanId, revokedAt: null }
  const tokens = await tx.accessToken.updateManyAndReturn({ where, data: { revokedAt }, select: { id: true } })
  return tokens.map(({ id }) => id)
}

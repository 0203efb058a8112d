import type { Viewer } from '../access/viewer.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { ForbiddenError, messageOf, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { jsonbText, toJson } from '../lib/json.ts'
import { sqlStateOf } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, entityChannel, tokenChannel } from '../realtime/topics.ts'
import type { Approvals } from '../runs/approvals.ts'
import { ACTIVE_STATUSES } from '../runs/runs.ts'
import type { Members } from '../spaces/members.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { ERASED } from './erased-human.ts'
import { type FailedRow, FIRST_PLACE, type Place, redactSome } from './redaction.ts'

/** The end of a human here. */
export interface Erasure {
  /**
   * Admins only. In one transaction its tokens and memberships end, and its row is named "Erased". Then, a few rows at a time, all that it
   * wrote is emptied if `messages` is set, subscribers of those spaces get a snapshot, and its name is removed from what the server had
   * written it into. Rows that active runs may still write are looked at again once those runs have ended. A row that fails is logged and
   * tried again later. Returns after 5 s at the latest; `sweep` does the rest. @throws ForbiddenError, NotFoundError
   */
  eraseHuman(viewer: Viewer, input: { id: string; messages: boolean }): Promise<{ erasedHumanId: string }>
  /** Continues erasures that wait for runs, were interrupted, or had rows that failed. One that fails does not stop the others. */
  sweep(): Promise<void>
}

interface ErasureParts {
  members: Pick<Members, 'lockSpacesOf' | 'leaveAll'>
  publisher: Pick<SpacePublisher, 'rewritten'>
  approvals: Pick<Approvals, 'recheck'>
}

/** What is still to be done, kept in the human's row. */
interface Task {
  name: string
  messages: boolean
  /** Its messages are emptied up to this id; null once all are, absent where they are not to be. */
  emptiedTo?: string | null
  /** Spaces whose subscribers are to get a snapshot once all messages are emptied. */
  emptiedIn?: string[]
  /** Null: every row was looked at, except what active runs may still write. */
  place: Place | null
  /** Runs that were active when the erasure began. */
  living: string[]
  /** Whether the pass under way is over what these have left. */
  isLastPass: boolean
  /** Whether a row of the pass under way failed. */
  hasFailed?: boolean
  /** After failures: no pass begins before. */
  retryAt?: number
}

/** So that others come first who wait for the same rows, or for the only connection of an embedded database. */
const PAUSE_MS = 5
/** How long it goes on before the mutation answers, and in one sweep. */
const AT_ONCE_MS = 5000
const A_SWEEP_MS = 30_000
/** After a pass with rows that failed. */
const RETRY_MS = 10 * 60_000
const MESSAGES_AT_ONCE = 500

const NO_SUCH_HUMAN = 'There is no such human.'
const NOT_FINISHED = 'could not finish an erasure; the next sweep continues it'
const ROW_FAILED = 'could not remove the name of an erased human from a row; a later sweep tries again'

export function createErasure(platform: Platform, { members, publisher, approvals }: ErasureParts): Erasure {
  const { db, clock, signals, logger } = platform

  async function finish(id: string, forMs: number): Promise<void> {
    const until = clock.now() + forMs
    while (!(await goOn(id)) && clock.now() < until) await sleep(PAUSE_MS)
  }

  /** Does some rows more. Another process may do the same: doing it twice changes nothing. @returns true once nothing can be done now */
  async function goOn(id: string): Promise<boolean> {
    const task = await taskOf(db.prisma, id)
    if (task === null || (task.retryAt ?? 0) > clock.now()) return true
    if (task.emptiedTo != null) return await emptySome(id, task, task.emptiedTo)
    const { place = FIRST_PLACE, living = [], isLastPass = false } = task
    if (place === null) return await beginLastPass(id, task)
    const { next, failed } = await redactSome(db, { id, ...task }, place, isLastPass ? living : null)
    report(id, failed)
    const hasFailed = task.hasFailed === true || failed.length > 0
    if (next !== null) return replaceTask(id, task, { ...task, place: next, hasFailed })
    return endPass(id, { ...task, isLastPass, living, hasFailed }, task)
  }

  /** Every row was looked at: rows that failed have another pass later; then what active runs still write has one. */
  async function endPass(id: string, task: Task, stored: Task): Promise<boolean> {
    if (task.hasFailed === true) {
      const anew = { place: FIRST_PLACE, hasFailed: false, ...(task.messages ? { emptiedTo: '' } : {}) }
      await replaceTask(id, stored, { ...task, ...anew, retryAt: clock.now() + RETRY_MS })
      return true
    }
    const isOver = task.isLastPass || task.living.length === 0
    await replaceTask(id, stored, isOver ? null : { ...task, place: null })
    return isOver
  }

  /** Once all runs are over that were active then: what they have written by their end is looked at. */
  async function beginLastPass(id: string, task: Task): Promise<boolean> {
    const where = { id: { in: task.living }, status: { in: ACTIVE_STATUSES } }
    if ((await db.prisma.run.count({ where })) > 0) return true
    return replaceTask(id, task, { ...task, place: FIRST_PLACE, isLastPass: true })
  }

  /** Empties some of the messages that the human wrote; after the last, subscribers of their spaces get a snapshot. */
  async function emptySome(id: string, task: Task, after: string): Promise<boolean> {
    const { last, spaceIds, failed } = await emptyMessages(db.prisma, id, after)
    report(id, failed)
    const emptiedIn = [...new Set([...(task.emptiedIn ?? []), ...spaceIds])]
    if (last === null) for (const spaceId of emptiedIn) await publisher.rewritten(spaceId)
    const { emptiedIn: _, ...others } = task
    return replaceTask(id, task, {
      ...others,
      ...(last === null ? {} : { emptiedIn }),
      emptiedTo: last,
      hasFailed: task.hasFailed === true || failed.length > 0,
    })
  }

  /** Written only where no other process has done the same meanwhile. @returns false: there is more to do */
  async function replaceTask(id: string, before: Task, task: Task | null): Promise<false> {
    await db.prisma.$executeRaw`
      UPDATE "Entity" SET formerly = ${task === null ? null : jsonbText(task)}::jsonb WHERE id = ${id} AND formerly = ${jsonbText(before)}::jsonb`
    return false
  }

  function report(humanId: string, failed: readonly FailedRow[]): void {
    for (const { table, id, error } of failed)
      logger.error({ humanId, table, id, error: sqlStateOf(error) ?? errorName(error) }, ROW_FAILED)
  }

  /** Subscribers of agents that work for it read the agents' runs anew. */
  async function tellWatchers(id: string): Promise<void> {
    const where = { triggerSenderId: id, status: { in: ACTIVE_STATUSES } }
    const agents = await db.prisma.run.findMany({ where, select: { agentId: true }, distinct: ['agentId'] })
    for (const { agentId } of agents) await signals.publish(agentChannel(agentId), { type: 'run-changed' })
  }

  return {
    async eraseHuman(viewer, { id, messages }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can erase humans.')
      if (prefixOf(id) !== 'hum') throw new NotFoundError(NO_SUCH_HUMAN)
      const { left, tokenIds } = await db.transaction(async (tx) => {
        await members.lockSpacesOf(tx, id)
        await rename(tx, id, { messages, goneAt: new Date(clock.now()) })
        const left = await members.leaveAll(tx, id)
        return { left, tokenIds: await revokeAll(tx, id, new Date(clock.now())) }
      })
      await Promise.all([
        ...tokenIds.map((tokenId) => signals.publish(tokenChannel(tokenId), { type: 'revoked' })),
        signals.publish(entityChannel(id), { type: 'gone' }),
      ])
      await left.afterCommit()
      // Who is asked by name may belong to no space.
      await approvals.recheck()
      try {
        await finish(id, AT_ONCE_MS)
      } catch (error) {
        logger.warn({ humanId: id, error: messageOf(error) }, NOT_FINISHED)
      }
      await tellWatchers(id)
      return { erasedHumanId: id }
    },
    async sweep() {
      const unfinished = await db.prisma.$queryRaw<{ id: string }[]>`
        SELECT id FROM "Entity" WHERE kind = 'HUMAN' AND "goneAt" IS NOT NULL AND formerly IS NOT NULL`
      for (const { id } of unfinished) {
        try {
          await finish(id, A_SWEEP_MS)
        } catch (error) {
          logger.warn({ humanId: id, error: messageOf(error) }, NOT_FINISHED)
        }
      }
    },
  }
}

/** Its name is kept until it is removed everywhere: the rows are found by it. */
async function rename(tx: Tx, id: string, { messages, goneAt }: { messages: boolean; goneAt: Date }): Promise<void> {
  const [human] = await tx.$queryRaw<{ name: string }[]>`
    SELECT name FROM "Entity" WHERE id = ${id} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR UPDATE`
  if (human === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
  const runs = await tx.run.findMany({ where: { status: { in: ACTIVE_STATUSES } }, select: { id: true } })
  const task: Task = {
    name: human.name,
    messages,
    ...(messages ? { emptiedTo: '' } : {}),
    place: FIRST_PLACE,
    isLastPass: false,
    living: runs.map((run) => run.id),
  }
  const formerly = toJson(task) as Prisma.InputJsonObject
  await tx.entity.update({ where: { id }, data: { goneAt, externalId: null, name: ERASED, formerly } })
}

async function taskOf(tx: Tx, id: string): Promise<Task | null> {
  const [entity] = await tx.$queryRaw<{ formerly: Task | null }[]>`SELECT formerly FROM "Entity" WHERE id = ${id}`
  return entity?.formerly ?? null
}

/** @returns the last message of these, null where no others follow; and the spaces in which there were any */
async function emptyMessages(
  tx: Tx,
  humanId: string,
  after: string,
): Promise<{ last: string | null; spaceIds: string[]; failed: FailedRow[] }> {
  const rows = await tx.$queryRaw<{ id: string; spaceId: string }[]>`
    SELECT id, "spaceId" FROM "Message" WHERE "senderId" = ${humanId} AND id > ${after} AND parts <> '[]' AND "spaceId" IN (
      SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId}
      UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId})
    ORDER BY id LIMIT ${MESSAGES_AT_ONCE}`
  const empty = (ids: string[]) => tx.message.updateMany({ where: { id: { in: ids } }, data: { parts: [] } })
  const failed: FailedRow[] = []
  try {
    await empty(rows.map(({ id }) => id))
  } catch {
    for (const { id } of rows) {
      try {
        await empty([id])
      } catch (error) {
        failed.push({ table: 'Message', id, error })
      }
    }
  }
  const last = rows.length === MESSAGES_AT_ONCE ? (rows.at(-1)?.id ?? null) : null
  return { last, spaceIds: [...new Set(rows.map(({ spaceId }) => spaceId))], failed }
}

async function revokeAll(tx: Tx, humanId: string, revokedAt: Date): Promise<string[]> {
  await tx.invitation.deleteMany({ where: { humanId } })
  const where = { humanId, revokedAt: null }
  const tokens = await tx.accessToken.updateManyAndReturn({ where, data: { revokedAt }, select: { id: true } })
  return tokens.map(({ id }) => id)
}

/** The class of an error: its words may quote the row. */
const errorName = (error: unknown) => (error instanceof Error ? error.name : typeof error)

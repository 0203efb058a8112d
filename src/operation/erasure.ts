import type { Viewer } from '../access/viewer.ts'
import { publishEndedSessions, publishRoleChange } from '../broker/ended-sessions.ts'
import { agentChannel, entityChannel, tokenChannel } from '../broker/topics.ts'
import type { DecideCall } from '../flows/decide-call.ts'
import type { Leaving } from '../flows/leave-space.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { jsonbText, toJson } from '../lib/json.ts'
import { sweepRows } from '../lib/sweep-rows.ts'
import { sqlStateOf } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { deleteConversationsOf } from '../stores/conversation-store.ts'
import { replaceErasureTask, updateEntity } from '../stores/entity-store.ts'
import { deleteUnsentFilesOf } from '../stores/file-store.ts'
import { clearGrantReasons } from '../stores/grant-store.ts'
import { changeRole } from '../stores/human-store.ts'
import { deleteIdentities } from '../stores/identity-store.ts'
import { deleteMailCodes } from '../stores/mail-code-store.ts'
import { deleteInvitationsOf } from '../stores/mail-invitation-store.ts'
import { deleteMailsOf } from '../stores/mail-store.ts'
import { deleteAuthorizationsOf } from '../stores/mcp-authorization-store.ts'
import { deleteReactionsOf, emptyMessages } from '../stores/message-store.ts'
import { deleteNotices } from '../stores/notice-store.ts'
import { deleteNotificationSettings } from '../stores/notification-settings-store.ts'
import { deletePushSubscriptions } from '../stores/push-store.ts'
import { deleteSessions } from '../stores/session-store.ts'
import { lockSpacesOf } from '../stores/space-store.ts'
import { deleteTaskPushes } from '../stores/task-push-store.ts'
import { deleteThreadReader } from '../stores/thread-store.ts'
import { deleteInvitations, revokeTokensOf } from '../stores/token-store.ts'
import { ERASED } from './erased-human.ts'
import { type FailedRow, FIRST_PLACE, type Place, redactSome } from './redaction.ts'

export interface Erasure {
  /**
   * Erases a human. Only admins may do this. One transaction ends the human's tokens and memberships and renames the
   * row to "Erased". Further transactions process a few rows at a time. They remove the name from text that the server
   * wrote. If `messages` is set, they also empty the human's messages, and then subscribers of those spaces get a
   * snapshot. Rows that active runs can still write are checked again after those runs have ended. A row that fails is
   * logged and retried later. Returns after at most 5 s. `sweep` does the rest.
   * @throws ForbiddenError, NotFoundError
   */
  eraseHuman(viewer: Viewer, input: { id: string; messages: boolean }): Promise<{ erasedHumanId: string }>
  /**
   * Continues erasures that are waiting for runs, were interrupted, or had failed rows. If one erasure fails, continues
   * with the others.
   */
  sweep(signal?: AbortSignal): Promise<void>
}

interface ErasureParts {
  leaving: Pick<Leaving, 'leaveAll'>
  publisher: Pick<SpacePublisher, 'rewritten'>
  decideCall: Pick<DecideCall, 'recheck'>
}

/** The remaining work, stored in the human's row. */
interface Task {
  name: string
  messages: boolean
  /**
   * The human's messages up to this id have been emptied. Null when all of them have been emptied, and absent if
   * messages are kept.
   */
  emptiedTo?: string | null
  /** Spaces whose subscribers get a snapshot when all messages have been emptied. */
  emptiedIn?: string[]
  /**
   * The position of the current pass. Null when every row has been checked, except rows that active runs can still
   * write.
   */
  place: Place | null
  /** Runs that were active when the erasure started. */
  living: string[]
  /** Whether the current pass covers only the rows of the runs in `living`. */
  isLastPass: boolean
  /** Whether a row of the current pass failed. */
  hasFailed?: boolean
  /** The earliest start of the next pass. Set if rows have failed. */
  retryAt?: number
}

/**
 * The pause between batches. During the pause, statements that wait for the same rows, or for an embedded database's
 * only connection, can proceed.
 */
const PAUSE_MS = 5
/** The maximum time that the mutation spends on the erasure. The next constant is the limit for a sweep. */
const AT_ONCE_MS = 5000
const A_SWEEP_MS = 30_000
/** The pause after a pass with failed rows. */
const RETRY_MS = 10 * 60_000
const MESSAGES_AT_ONCE = 500

const NO_SUCH_HUMAN = 'There is no such human.'
const NOT_FINISHED = 'could not finish an erasure; the next sweep continues it'
const ROW_FAILED = 'could not remove the name of an erased human from a row; a later sweep tries again'

export function createErasure(platform: Platform, { leaving, publisher, decideCall }: ErasureParts): Erasure {
  const { db, clock, signals, logger } = platform

  async function finish(id: string, forMs: number, signal?: AbortSignal): Promise<void> {
    const until = clock.now() + forMs
    while (!(await goOn(id)) && clock.now() < until && !signal?.aborted) await sleep(PAUSE_MS)
  }

  /**
   * Handles the next batch of rows. Several processes can handle the same batch, because the work is idempotent.
   * @returns true if no more work can be done now
   */
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

  /**
   * Ends a pass. Schedules another full pass if rows have failed. Otherwise schedules the last pass if runs were
   * active.
   */
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

  /**
   * Starts the last pass when all runs that were active at the start of the erasure have ended. It covers the rows of
   * these runs.
   */
  async function beginLastPass(id: string, task: Task): Promise<boolean> {
    const where = { id: { in: task.living }, status: { in: [...ACTIVE_RUN_STATUSES] } }
    if ((await db.prisma.run.count({ where })) > 0) return true
    return replaceTask(id, task, { ...task, place: FIRST_PLACE, isLastPass: true })
  }

  /**
   * Empties the next batch of the human's messages. After the last batch, publishes a snapshot to subscribers of the
   * messages' spaces.
   */
  async function emptySome(id: string, task: Task, after: string): Promise<boolean> {
    const { last, spaceIds, failed } = await emptyMessagesOf(db.prisma, id, after)
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

  /** Stores the task unless another process has changed it. Always returns false, because more work is left. */
  async function replaceTask(id: string, before: Task, task: Task | null): Promise<false> {
    const [old, left] = [jsonbText(before), task === null ? null : jsonbText(task)]
    await replaceErasureTask(db.prisma, id, { before: old, task: left })
    return false
  }

  function report(humanId: string, failed: readonly FailedRow[]): void {
    for (const { table, id, error } of failed)
      logger.error({ humanId, table, id, error: sqlStateOf(error) ?? errorName(error) }, ROW_FAILED)
  }

  /** Makes subscribers of agents that work for the human reload the agents' runs. */
  async function tellWatchers(id: string): Promise<void> {
    const where = { triggerSenderId: id, status: { in: [...ACTIVE_RUN_STATUSES] } }
    const agents = await db.prisma.run.findMany({ where, select: { agentId: true }, distinct: ['agentId'] })
    for (const { agentId } of agents) await signals.publish(agentChannel(agentId), { type: 'run-changed' })
  }

  return {
    async eraseHuman(viewer, { id, messages }) {
      requireAdmin(viewer, 'erase humans')
      if (prefixOf(id) !== 'hum') throw new NotFoundError(NO_SUCH_HUMAN)
      const by = viewer.scope === 'HUMAN' ? viewer.id : null
      const { left, tokenIds, sessionIds, roleChange } = await db.transaction(async (tx) => {
        await lockSpacesOf(tx, id)
        const roleChange = await changeRole(tx, { humanId: id, role: 'MEMBER', by })
        await deleteMailOf(tx, id)
        await rename(tx, id, { messages, goneAt: new Date(clock.now()) })
        if (messages) await clearGrantReasons(tx, id)
        if (messages) await deleteReactionsOf(tx, id)
        const left = await leaving.leaveAll(tx, id)
        await deleteConversationsOf(tx, id)
        await deleteThreadReader(tx, id)
        const tokenIds = await revokeAll(tx, id, new Date(clock.now()))
        await deletePushSubscriptions(tx, { humanId: id })
        await deleteTaskPushes(tx, { viewerId: id })
        await deleteNotices(tx, { humanId: id })
        await deleteNotificationSettings(tx, id)
        const sessionIds = await deleteSessions(tx, { scope: 'HUMAN', viewerId: id })
        return { left, tokenIds, sessionIds, roleChange }
      })
      await Promise.all([
        ...tokenIds.map((tokenId) => signals.publish(tokenChannel(tokenId), { type: 'revoked' })),
        signals.publish(entityChannel(id), { type: 'gone' }),
        publishEndedSessions(signals, sessionIds),
        publishRoleChange({ signals, logger }, roleChange),
      ])
      await left.afterCommit()
      // The human can be a named approver without being a member of any space.
      await decideCall.recheck()
      try {
        await finish(id, AT_ONCE_MS)
      } catch (error) {
        logger.warn({ humanId: id, error: messageOf(error) }, NOT_FINISHED)
      }
      await tellWatchers(id)
      return { erasedHumanId: id }
    },
    async sweep(signal) {
      await sweepRows({
        next: (after, most) => db.prisma.$queryRaw<{ id: string }[]>`
          SELECT id FROM "Entity" WHERE kind = 'HUMAN' AND "goneAt" IS NOT NULL AND formerly IS NOT NULL AND id > ${after}
          ORDER BY id LIMIT ${most}`,
        handle: ({ id }) => finish(id, A_SWEEP_MS, signal),
        report: ({ id }, error) => logger.warn({ humanId: id, error: messageOf(error) }, NOT_FINISHED),
        signal,
      })
    },
  }
}

/** Deletes waiting emails, links, and invitations that the human has created or received. */
async function deleteMailOf(tx: Tx, id: string): Promise<void> {
  const human = await tx.entity.findUnique({ where: { id }, select: { email: true } })
  const whose = { id, email: human?.email ?? null }
  await deleteMailsOf(tx, whose)
  const { email } = whose
  await deleteMailCodes(tx, {
    OR: [{ humanId: id }, ...(email === null ? [] : [{ email: { equals: email, mode: 'insensitive' as const } }])],
  })
  await deleteInvitationsOf(tx, whose)
}

/** Renames the human. The row keeps the former name until the erasure has removed that name from all other rows. */
async function rename(tx: Tx, id: string, { messages, goneAt }: { messages: boolean; goneAt: Date }): Promise<void> {
  const [human] = await tx.$queryRaw<{ name: string }[]>`
    SELECT name FROM "Entity" WHERE id = ${id} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR UPDATE`
  if (human === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
  const runs = await tx.run.findMany({ where: { status: { in: [...ACTIVE_RUN_STATUSES] } }, select: { id: true } })
  const task: Task = {
    name: human.name,
    messages,
    ...(messages ? { emptiedTo: '' } : {}),
    place: FIRST_PLACE,
    isLastPass: false,
    living: runs.map((run) => run.id),
  }
  const formerly = toJson(task) as Prisma.InputJsonObject
  const nothing = { externalId: null, email: null, picture: null, timeZone: null, budget: Prisma.DbNull }
  await deleteUnsentFilesOf(tx, id)
  await deleteAuthorizationsOf(tx, id)
  await updateEntity(tx, id, { ...nothing, goneAt, name: ERASED, formerly })
}

async function taskOf(tx: Tx, id: string): Promise<Task | null> {
  const [entity] = await tx.$queryRaw<{ formerly: Task | null }[]>`SELECT formerly FROM "Entity" WHERE id = ${id}`
  return entity?.formerly ?? null
}

/** @returns the spaces of the emptied messages, and the id of the last emptied message (null if no messages follow) */
async function emptyMessagesOf(
  tx: Tx,
  humanId: string,
  after: string,
): Promise<{ last: string | null; spaceIds: string[]; failed: FailedRow[] }> {
  const rows = await tx.$queryRaw<{ id: string; spaceId: string }[]>`
    SELECT id, "spaceId" FROM "Message" WHERE "senderId" = ${humanId} AND id > ${after} AND parts <> '[]' AND "spaceId" IN (
      SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId}
      UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId})
    ORDER BY id LIMIT ${MESSAGES_AT_ONCE}`
  const failed: FailedRow[] = []
  try {
    await emptyMessages(
      tx,
      rows.map(({ id }) => id),
    )
  } catch {
    for (const { id } of rows) {
      try {
        await emptyMessages(tx, [id])
      } catch (error) {
        failed.push({ table: 'Message', id, error })
      }
    }
  }
  const last = rows.length === MESSAGES_AT_ONCE ? (rows.at(-1)?.id ?? null) : null
  return { last, spaceIds: [...new Set(rows.map(({ spaceId }) => spaceId))], failed }
}

async function revokeAll(tx: Tx, humanId: string, revokedAt: Date): Promise<string[]> {
  await deleteIdentities(tx, humanId)
  await deleteInvitations(tx, { OR: [{ humanId }, { inviterId: humanId }] })
  return revokeTokensOf(tx, humanId, revokedAt)
}

/** Returns only the class of an error, because the error message can quote the row. */
const errorName = (error: unknown) => (error instanceof Error ? error.name : typeof error)

import type { Viewer } from '../access/viewer.ts'
import type { Carrier, Discretion, Refusal } from '../confidentiality/discretion.ts'
import { marksOf } from '../confidentiality/marks.ts'
import { mayBeWritten } from '../confidentiality/world.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message } from '../rules/message.ts'
import { isAdmin } from '../rules/permissions.ts'
import { isMemberSql } from '../stores/membership-store.ts'
import { lockMessage } from '../stores/message-store.ts'

export const NO_SUCH_MESSAGE = 'There is no such message, or you may not see it.'

/**
 * Locks a message that the viewer may see.
 * @throws NotFoundError
 */
export async function lockVisible(tx: Tx, viewer: Viewer, messageId: string): Promise<Message> {
  if (prefixOf(messageId) !== 'msg' || viewer.scope === 'SERVICE') throw new NotFoundError(NO_SUCH_MESSAGE)
  const isVisible = isAdmin(viewer)
    ? Prisma.sql`EXISTS (SELECT 1 FROM "Space" s WHERE s.id = m."spaceId" AND s."deletedAt" IS NULL)`
    : Prisma.sql`EXISTS (SELECT 1 FROM "Membership" o WHERE o."spaceId" = m."spaceId" AND o."entityId" = ${viewer.id})`
  const message = await lockMessage(tx, messageId)
  // The check comes after the lock, because access may end while the request waits for the lock.
  const [row] = await tx.$queryRaw<unknown[]>`SELECT 1 FROM "Message" m WHERE m.id = ${messageId} AND ${isVisible}`
  if (message === null || row === undefined) throw new NotFoundError(NO_SUCH_MESSAGE)
  return message
}

/** A run that is changing a message, with the run's marks and requesters. */
export type ChangingRun = Carrier & Readonly<Pick<Run, 'id'>>

/** A message that a tool call may change, according to a check before the call's transaction. */
export interface ReachedMessage {
  id: string
  /** SQL condition for the write: the check still succeeds. */
  condition: Prisma.Sql
}

/** Whether a run may change a message, and the reason if it may not. */
export type Reach =
  | { type: 'reached'; message: ReachedMessage }
  | { type: 'refused'; refusal: Refusal }
  /** The agent does not belong to the message's space, or the message does not exist. */
  | { type: 'unknown' }

/** Checks which messages the tool calls of a run may change. */
export interface MessageReach {
  /** @param flows whether the change puts content of the run into the message's space */
  of(run: ChangingRun, messageId: string, how: { flows: boolean }): Promise<Reach>
}

export function createMessageReach(
  { db }: Pick<Platform, 'db'>,
  { discretion }: { discretion: Pick<Discretion, 'toSpeak' | 'toEnter'> },
): MessageReach {
  return {
    async of(run, messageId, { flows }) {
      const row =
        prefixOf(messageId) === 'msg'
          ? await db.prisma.message.findUnique({
              where: { id: messageId },
              select: { spaceId: true, space: { select: { confidential: true } } },
            })
          : null
      if (row === null) return { type: 'unknown' }
      const { spaceId, space } = row
      const isMember = isMemberSql({ spaceId, entityId: run.agentId })
      if (!flows) {
        const [member] = await db.query(Prisma.sql`SELECT 1 WHERE ${isMember}`)
        if (member === undefined) return { type: 'unknown' }
        const refusal = space.confidential ? await discretion.toEnter(run, spaceId) : null
        if (refusal !== null) return { type: 'refused', refusal }
        return { type: 'reached', message: { id: messageId, condition: isMember } }
      }
      const clearance = await discretion.toSpeak(run, spaceId)
      if (clearance.type === 'foreign') return { type: 'unknown' }
      if (clearance.type === 'refused') return clearance
      const may = mayBeWritten(spaceId, marksOf(run), clearance.cleared)
      const condition = Prisma.sql`(${isMember} AND EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND ${may}))`
      return { type: 'reached', message: { id: messageId, condition } }
    },
  }
}

/**
 * Locks a message that a tool call may change.
 * @throws NotFoundError if the check no longer succeeds
 */
export async function lockReached(tx: Tx, { id, condition }: ReachedMessage): Promise<Message> {
  const message = await lockMessage(tx, id)
  const [may] = await tx.$queryRaw<unknown[]>`SELECT 1 WHERE ${condition}`
  if (message === null || may === undefined) throw new NotFoundError(NO_SUCH_MESSAGE)
  return message
}

/** @throws ForbiddenError unless the entity has sent the message */
export function checkSender({ senderId }: Message, entityId: string, action: string): void {
  if (senderId !== entityId) throw new ForbiddenError(`Only the sender of a message can ${action} it.`)
}

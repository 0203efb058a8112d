import type { Viewer } from '../access/viewer.ts'
import { spaceChannel, spaceTopic } from '../broker/topics.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, messageOfRow } from '../rules/message.ts'
import { faultOfDeletion } from '../rules/message-changes.ts'
import { isAdmin } from '../rules/permissions.ts'
import { describeFile } from '../spaces/readable-text.ts'
import { deleteCallsOfMessagesSql, forgetReadFiles, hideCallsOfMessage } from '../stores/call-store.ts'
import { insertDeletion } from '../stores/deletion-store.ts'
import { deleteFilesOfMessages, textsOfFiles } from '../stores/file-store.ts'
import { copiesOfMessage } from '../stores/fork-store.ts'
import { dropWaiting, readersOf, tellChange } from '../stores/inbox-store.ts'
import { clearMessage, versionsOf } from '../stores/message-store.ts'
import { lockSpace } from '../stores/space-store.ts'
import { loseTurns } from './chain.ts'
import { type ChangingRun, checkSender, lockReached, lockVisible, type ReachedMessage } from './message-access.ts'
import { collectOutcomeChanges } from './outcome-changes.ts'
import { loadMessageTrigger } from './wake.ts'

/** Deletes messages: their sequence number stays, but none of their content. */
export interface MessageDeletions {
  /**
   * For the sender and admins. Returns once the text is also gone from prompts and journals, or after a few
   * seconds; a sweep does the rest. @throws NotFoundError, ForbiddenError, ConflictError
   */
  deleteMessage(viewer: Viewer, input: { messageId: string }): Promise<Message>
  /** Deletes a message of a run's agent, in the transaction of the call. @throws the same */
  deleteOwn(tx: Tx, run: ChangingRun, message: ReachedMessage): Promise<{ afterCommit(): Promise<void> }>
}

/** Removes the text of a deleted message from rows that were derived from it. */
export interface DerivedTexts {
  /** Never throws: a sweep continues what failed. */
  forget(messageId: string): Promise<void>
  /** Removes the texts of messages that were deleted while a run was active from everything that the run has written since. */
  forgetInRun(runId: string): Promise<void>
}

interface AfterCommit {
  afterCommit(): Promise<void>
}

export function createMessageDeletions(
  platform: Platform,
  { derivedTexts }: { derivedTexts: DerivedTexts },
): MessageDeletions {
  const { db, log } = platform

  async function remove(tx: Tx, message: Message): Promise<AfterCommit & { deleted: Message }> {
    const { id: messageId, spaceId, runId, createdAt: sentAt } = message
    const fault = faultOfDeletion(message)
    if (fault !== null) throw new ConflictError(fault)
    const [readerIds, payload] = [await readersOf(tx, messageId), await noticeOf(tx, message)]
    await insertDeletion(tx, {
      messageId,
      spaceId,
      sentAt,
      runId,
      texts: [...textsIn(message), ...(await versionsOf(tx, messageId)), ...(await textsOfFiles(tx, messageId))],
    })
    await tx.$executeRaw(deleteCallsOfMessagesSql(Prisma.sql`${messageId}`))
    await hideCallsOfMessage(tx, messageId)
    await forgetReadFiles(tx, filesIn(message))
    await deleteFilesOfMessages(tx, [messageId])
    const deleted = await clearMessage(tx, messageId)
    const outcomes = collectOutcomeChanges(tx, log)
    const dropped = await dropWaiting(tx, messageId)
    for (const { agentId } of dropped)
      await outcomes.set({ messageId, agentId, kind: 'DROPPED', reason: DROPPED, runId: null })
    const lost = await loseTurns(tx, platform, dropped)
    const copies = await removeCopies(tx, message)
    const { rootId, depth, places, label, askers } = message
    const provenance = { places: [...new Set([...places, spaceId])].sort(), label, askers }
    await tellChange(tx, {
      messageId,
      number: LAST,
      spaceId,
      payload,
      rootId,
      depth,
      agentIds: readerIds,
      ...provenance,
    })
    return {
      deleted,
      async afterCommit() {
        await publishDeletion(platform, message)
        await outcomes.announce()
        await lost.afterCommit()
        await derivedTexts.forget(messageId)
        for (const copy of copies) await copy.afterCommit()
      },
    }
  }

  /** Removes the message from copies of its space. The lock lets copies that are in the making finish. */
  async function removeCopies(tx: Tx, { spaceId, seq }: Message): Promise<AfterCommit[]> {
    await lockSpace(tx, spaceId)
    const rows = await copiesOfMessage(tx, { spaceId, seq })
    const removed: AfterCommit[] = []
    for (const row of rows) removed.push(await remove(tx, messageOfRow(row)))
    return removed
  }

  return {
    async deleteMessage(viewer, { messageId }) {
      const { deleted, afterCommit } = await db.transaction(async (tx) => {
        const message = await lockVisible(tx, viewer, messageId)
        if (!isAdmin(viewer) && message.senderId !== viewer.id)
          throw new ForbiddenError('Only the sender of a message and admins can delete it.')
        return remove(tx, message)
      })
      await afterCommit()
      return deleted
    },
    async deleteOwn(tx, run, reached) {
      const message = await lockReached(tx, reached)
      checkSender(message, run.agentId, 'delete')
      return remove(tx, message)
    },
  }
}

/** Publishes a deletion, and drops the earlier events of the space, some of which may contain the text. */
export async function publishDeletion(
  { log, signals }: Pick<Platform, 'log' | 'signals'>,
  { id: messageId, spaceId }: Pick<Message, 'id' | 'spaceId'>,
): Promise<void> {
  await Promise.all([
    log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId }, { forgets: true }),
    signals.publish(spaceChannel(spaceId), { type: 'message' }, spaceTopic(spaceId)),
  ])
}

const DROPPED = 'The message was deleted before the agent read it.'
/** The number of a message's last change, which is part of the deduplication key. */
const LAST = 0

const textsIn = ({ parts }: Message): string[] =>
  parts.flatMap((part) => {
    if (part.type === 'text') return [part.text]
    return part.type === 'file' ? [describeFile(part)] : []
  })

const filesIn = ({ parts }: Message): string[] => parts.flatMap((part) => (part.type === 'file' ? [part.fileId] : []))

/** The notice for minds that have read the message. */
async function noticeOf(
  tx: Tx,
  { id: messageId, spaceId, senderId, threadRootId, createdAt }: Message,
): Promise<JsonObject> {
  const { space, sender } = await loadMessageTrigger(tx, { messageId: null, spaceId, senderId, seq: null })
  return {
    change: 'DELETED',
    messageId,
    sentAt: createdAt.toISOString(),
    spaceId,
    spaceName: space.name,
    ...(threadRootId === null ? {} : { threadRootId }),
    senderId,
    senderName: sender.name,
    senderKind: sender.kind,
  }
}

import { isDeepStrictEqual } from 'node:util'
import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { spaceChannel, spaceTopic } from '../broker/topics.ts'
import { UNMARKED } from '../confidentiality/marks.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkIdempotencyKey, checkMessageText } from '../lib/validate.ts'
import { type Changes, statementOf } from '../platform/changes.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { type FilePart, type Message, type MessagePart, mentionsOf, messageOfRow } from '../rules/message.ts'
import { NO_REPLY, type ReplyPlace } from '../rules/threads.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { attachFiles } from '../stores/file-store.ts'
import { isMemberSql } from '../stores/membership-store.ts'
import { insertMessageSql, type MessageRow, type NewMessage, rowOf } from '../stores/message-store.ts'
import { countMessageSql, NO_SUCH_SPACE } from '../stores/space-store.ts'
import { findReplyPlace } from '../stores/thread-store.ts'
import { NO_SUCH_MESSAGE } from './message-access.ts'
import { type MessageWriter, type Post, startedBy, type Written } from './post.ts'

export interface SendMessageInput {
  spaceId: string
  text: string
  mentionedAgentId?: string | null
  /** The ids of mentioned members of the space, at most 20. */
  mentionedIds?: readonly string[] | null
  idempotencyKey?: string | null
  /** The ids of files that the sender has uploaded, at most 20. With files, the text may be empty. */
  fileIds?: readonly string[] | null
  /** The id of a message in the space. The new message is posted in the thread of that message. */
  replyToId?: string | null
}

/** Sends messages for a viewer. */
export interface Sending {
  /**
   * Posts a message as the viewer, in a space of which the viewer is a member. If the idempotency key was used
   * before, returns the first message and its runs.
   * @throws ForbiddenError for an admin token; NotFoundError for a space or mentioned entity that the viewer cannot
   * see, a reply to a message that is not in the space, and a file of another human; BadInputError for an invalid
   * text, a mention of an entity that is not a member, a reply to a deleted message, or a file that was already sent;
   * ConflictError if the key was used with other content
   */
  send(viewer: Viewer, input: SendMessageInput): Promise<{ message: Message; runs: Run[] }>
}

interface SendingParts {
  visibility: Pick<Visibility, 'entities'>
  announcer: Announcer
  post: Post['post']
}

export function createSending(platform: Platform, { visibility, announcer, post }: SendingParts): Sending {
  const { db, signals } = platform

  return {
    async send(viewer, { spaceId, ...input }) {
      if (viewer.scope === 'ADMIN')
        throw new ForbiddenError('An admin token cannot post messages: use the token of a human.')
      if (prefixOf(spaceId) === null) throw new NotFoundError(NO_SUCH_SPACE)
      const mentionedIds = mentionsIn(input)
      if (mentionedIds.length > 0) {
        const visible = await visibility.entities(viewer, mentionedIds)
        if (!mentionedIds.every((mentioned) => visible.has(mentioned))) throw new NotFoundError(NO_SUCH_MENTIONED)
        if (input.mentionedAgentId != null && prefixOf(input.mentionedAgentId) !== 'agt')
          throw new BadInputError(
            'The mentioned member is a person: use mentionedIds to mention people.',
            'input.mentionedAgentId',
          )
      }
      const fileIds = fileIdsIn(input)
      const parts = [...textIn(input), ...(await readOwnFiles(db, viewer.id, fileIds))]
      const idempotencyKey =
        input.idempotencyKey == null ? null : checkIdempotencyKey(input.idempotencyKey, 'input.idempotencyKey')

      const id = newId('msg')
      const reply = await replyIn(platform, viewer.id, { spaceId, idempotencyKey, replyToId: input.replyToId ?? null })
      const given: NewMessage = {
        id,
        spaceId,
        senderId: viewer.id,
        status: 'COMPLETE',
        parts,
        mentionedAgentId: mentionedIds.find((mentioned) => prefixOf(mentioned) === 'agt') ?? null,
        mentionedIds,
        rootId: id,
        depth: 0,
        idempotencyKey,
        actingAdminId: actingAdminOf(viewer),
        acted: isActing(viewer),
        ...reply,
      }
      const { message, routed } = await post(
        { ...given, ...UNMARKED, ...reply, mentionedIds, runId: null },
        {
          write: (how) => insertMessage(db, given, how, fileIds),
          refused: () => new NotFoundError(NO_SUCH_SPACE),
          needsLock: fileIds.length > 0,
        },
      ).catch(async (error) => {
        // At this point, only files and mentions can still be invalid, and errors about files have a field.
        if (error instanceof BadInputError && error.field === null)
          throw new BadInputError(error.message, fieldOfMentions(input))
        return { message: await repeatOf(error, platform, given), routed: null }
      })
      if (routed === null) return { message, runs: await startedBy(db, message.id) }

      await Promise.all([
        announcer.announce(message),
        routed.afterCommit(),
        signals.publish(spaceChannel(spaceId), { type: 'message' }, spaceTopic(spaceId)),
      ])
      return { message, runs: routed.runs }
    },
  }
}

const isActing = (viewer: Viewer) => viewer.scope === 'HUMAN' && viewer.acting !== undefined

const actingAdminOf = (viewer: Viewer) => (viewer.scope === 'HUMAN' ? (viewer.acting?.adminId ?? null) : null)

const MOST_MENTIONS = 20
const NO_SUCH_MENTIONED = 'A mentioned person or agent does not exist, or you may not see it.'

const fieldOfMentions = ({ mentionedIds }: Pick<SendMessageInput, 'mentionedIds'>) =>
  mentionedIds == null || mentionedIds.length === 0 ? 'input.mentionedAgentId' : 'input.mentionedIds'

/** @throws BadInputError */
function mentionsIn({ mentionedAgentId, mentionedIds }: Omit<SendMessageInput, 'spaceId'>): string[] {
  const all = new Set([...(mentionedAgentId == null ? [] : [mentionedAgentId]), ...(mentionedIds ?? [])])
  if (all.size > MOST_MENTIONS)
    throw new BadInputError(`A message can mention at most ${MOST_MENTIONS} members.`, 'input.mentionedIds')
  return [...all]
}

const REPLY_FIELD = 'input.replyToId'

/**
 * Returns the thread of a reply. A repeated request succeeds even if the message was deleted since the first request,
 * because the key is compared before the thread is needed.
 * @throws NotFoundError, BadInputError
 */
async function replyIn(
  { db }: Platform,
  entityId: string,
  input: { spaceId: string; idempotencyKey: string | null; replyToId: string | null },
): Promise<ReplyPlace> {
  const { spaceId, idempotencyKey, replyToId } = input
  if (replyToId === null) return NO_REPLY
  const found = await findReplyPlace(db, { spaceId, entityId, replyToId })
  if (found.type === 'place') return found.place
  const where = { spaceId, senderId: entityId, idempotencyKey, replyToId }
  const sent = idempotencyKey === null ? null : await db.prisma.message.findFirst({ where })
  if (sent !== null) return { replyToId, threadRootId: sent.threadRootId }
  if (found.type === 'deleted')
    throw new BadInputError('The message was deleted: reply to another message of the thread.', REPLY_FIELD)
  throw new NotFoundError(NO_SUCH_MESSAGE)
}

const MOST_FILES = 20
const FILES_FIELD = 'input.fileIds'
const NO_SUCH_FILE = 'You have not uploaded this file, or it was deleted.'

/** @throws BadInputError */
function fileIdsIn({ fileIds }: Pick<SendMessageInput, 'fileIds'>): readonly string[] {
  const ids = fileIds ?? []
  if (ids.length > MOST_FILES) throw new BadInputError(`A message can have at most ${MOST_FILES} files.`, FILES_FIELD)
  if (new Set(ids).size < ids.length) throw new BadInputError('Each file can be sent only once.', FILES_FIELD)
  return ids
}

/**
 * Returns the part that contains the text, or no part if there are files and no text.
 * @throws BadInputError
 */
function textIn({ text, fileIds }: Pick<SendMessageInput, 'text' | 'fileIds'>): MessagePart[] {
  const isLeftOut = (fileIds ?? []).length > 0 && text.trim() === ''
  return isLeftOut ? [] : [{ type: 'text', text: checkMessageText(text, 'input.text') }]
}

/**
 * Returns the parts for files that the sender has uploaded, even if these were already sent.
 * @throws NotFoundError for any other id
 */
async function readOwnFiles({ prisma }: Platform['db'], ownerId: string, ids: readonly string[]): Promise<FilePart[]> {
  if (ids.length === 0) return []
  const rows = await prisma.file.findMany({ where: { id: { in: wellFormedIds(ids) }, ownerId } })
  return inOrderOf(ids, rows).map((file) => {
    if (file === null) throw new NotFoundError(NO_SUCH_FILE)
    return { type: 'file', fileId: file.id, name: file.name, mediaType: file.mediaType }
  })
}

/**
 * Inserts the message with its number if the sender is a member. An optimistic write does not check the membership,
 * because it checks the space's version.
 */
async function insertMessage(
  db: Platform['db'],
  given: NewMessage,
  how: Parameters<MessageWriter['write']>[0],
  fileIds: readonly string[],
): Promise<Written | null> {
  const { spaceId, senderId } = given
  if ('tx' in how) {
    const counter = countMessageSql(spaceId, isMemberSql({ spaceId, entityId: senderId }))
    const changes: Changes = { counter, message: insertMessageSql(given) }
    const [row] = await how.tx.$queryRaw<MessageRow[]>(statementOf(changes, 'message'))
    if (row === undefined) return null
    if (fileIds.length > 0 && (await attachFiles(how.tx, given, fileIds)) < fileIds.length)
      throw new BadInputError('A file was already sent with another message: upload it again.', FILES_FIELD)
    return { message: messageOfRow(row) }
  }
  const { version, isAsCached, turn, effects } = how.expected
  const counter = countMessageSql(spaceId, Prisma.sql`version = ${version} AND ${isAsCached}`, turn)
  // The statement does not return the content, because it can be long.
  const answer = Prisma.sql`
    SELECT routed.seq, routed."routedAt", routed."createdAt", routed.came, counter.version AS "spaceVersion" FROM routed CROSS JOIN counter`
  const changes: Changes = { counter, message: insertMessageSql(given), ...effects, answer }
  const [row] = await db.query<Inserted>(statementOf(changes, 'answer'))
  if (row === undefined) return null
  const { came, spaceVersion, ...added } = row
  return { message: { ...rowOf(given), ...added }, came, version: spaceVersion }
}

/** The columns that the statement assigns itself, and the effects of routing. */
type Inserted = Pick<MessageRow, 'seq' | 'routedAt' | 'createdAt'> & { came: unknown; spaceVersion: number }

/**
 * Handles a violation of the unique key (space, sender, idempotency key). Returns the first message if it has the
 * same content.
 */
async function repeatOf(error: unknown, { db }: Platform, input: NewMessage): Promise<Message> {
  if (!isUniqueViolation(error) || input.idempotencyKey == null) throw error
  const { spaceId, senderId, idempotencyKey } = input
  const row = await db.prisma.message.findFirst({ where: { spaceId, senderId, idempotencyKey } })
  if (row === null) throw error
  const message = messageOfRow(row)
  // The message has been deleted or edited, so its first content is no longer available for comparison. It is not
  // sent again.
  if (message.deletedAt !== null || message.editedAt !== null) return message
  const same =
    isDeepStrictEqual(message.parts, input.parts) &&
    isDeepStrictEqual(mentionsOf(message), input.mentionedIds ?? []) &&
    message.replyToId === (input.replyToId ?? null)
  if (!same) throw new ConflictError('This idempotency key has already been used for a message with different content.')
  return message
}

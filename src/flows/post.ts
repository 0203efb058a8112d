// Optimization: the optimistic write (`postExpecting`, `Expected`, `isAsCached`, and the cache in rooms.ts). It
// decides the effects of a message from the cached state of its space. It then writes the message and its effects in
// one statement that checks the space's version, instead of in a transaction that locks the space.
// To remove the optimization, let `post` always use its transaction, and delete these parts, the branches for
// `expected` in send-message.ts and posting/run-messages.ts, and `Space.version`.
// Gain: a `sendMessage` that wakes one agent takes 1 statement instead of 6, and a run of two steps with one message
// 8 instead of 19 (docs/round-trips.md, counted by test/support/round-trips.ts). The limits in `bench/round-trips`
// for these two cases depend on the optimization.
import { spaceTopic } from '../broker/topics.ts'
import type { Provenance } from '../confidentiality/marks.ts'
import { type EntityKind, Prisma, type Run } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL } from '../jobs/queues.ts'
import { BadInputError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { overBudget, rootOfMessage } from '../platform/budget-state.ts'
import { type Changes, statementOf } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, mentionsOf, messageOfRow, textOf } from '../rules/message.ts'
import { noticeKindOf } from '../rules/notices.ts'
import {
  type AgentMember,
  type Answered,
  type Decision,
  decideWakes,
  faultOfMentions,
  limitWakes,
} from '../rules/routing.ts'
import type { FinalMessageStatus } from '../rules/statuses.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { readableText } from '../spaces/readable-text.ts'
import { insertChainSql } from '../stores/chain-store.ts'
import { finishAnswered } from '../stores/message-store.ts'
import { notifyOfMessageSql } from '../stores/notice-store.ts'
import { upsertOutcomesSql } from '../stores/outcome-store.ts'
import { takeTurn } from '../stores/space-store.ts'
import { insertThreadReadersSql, takeTurnInThread } from '../stores/thread-store.ts'
import { allowance } from './loop-limits.ts'
import { answerWaits, isNoReply } from './reply-waits.ts'
import { createRooms, type FullRoom, readRoom } from './rooms.ts'
import { type MessageTrigger, provenanceOfMessage, publishWoken, type Woken, wakeSql, wokenOf } from './wake.ts'

/** The fields of a message that routing needs. A message that is not finished may not have a row yet. */
export type RoutedMessage = Pick<
  Message,
  | 'id'
  | 'spaceId'
  | 'senderId'
  | 'parts'
  | 'mentionedAgentId'
  | 'mentionedIds'
  | 'rootId'
  | 'depth'
  | 'runId'
  | 'threadRootId'
  | keyof Provenance
>

/**
 * The effects of a message, decided from the cached state of its space. One statement writes them together with the
 * message.
 */
export interface Expected {
  /**
   * The version that the space must have when the statement runs. `isAsCached` checks the state that the version does
   * not cover.
   */
  version: number
  isAsCached: Prisma.Sql
  /** The agent to which the message gives the turn; null if there is none. */
  turn: AgentMember | null
  /**
   * CTEs for the statement that writes the message. They read from the CTE `message`. The last one, `routed`, returns
   * the message's row and, in the column `came`, its effects.
   */
  effects: Changes
}

/** A message that has been written. */
export interface Written {
  message: Message
  /** The column `came` of an optimistic write: the effects of the message. */
  came?: unknown
  /** The version of the space after an optimistic write that gave an agent the turn. */
  version?: number
}

/** Writes a message in the way that its sender requires. */
export interface MessageWriter {
  /**
   * Writes the message in one statement. With `expected`, also writes its effects, if the space is as expected. With
   * `tx`, writes no effects. Returns null if the conditions for the write do not hold.
   */
  write(how: { expected: Expected } | { tx: Tx }): Promise<Written | null>
  /** Returns the error to throw if the write in the transaction fails too. */
  refused(): Error
  /** Whether a transaction is required, because the effects depend on rows that the writer locks. */
  needsLock?: boolean
}

/** The result of routing a message in the transaction that finished it. */
export interface Routed {
  /** The runs that the message started. */
  runs: Run[]
  /** Publishes the effects after the commit. */
  afterCommit(): Promise<void>
}

/**
 * Writes finished messages together with their effects: the runs, inbox events and outcomes of the agents in the
 * space.
 */
export interface Post {
  /**
   * Writes a message. First tries one statement, with effects decided from the cached state of the space. If that
   * state has changed or is not sufficient, uses a transaction that writes the message and then decides the effects
   * under its locks.
   * @throws BadInputError if a mention is refused; the error of `refused()`
   */
  post(message: RoutedMessage, writer: MessageWriter): Promise<{ message: Message; routed: Routed | null }>
  /**
   * Finishes a message whose call has been answered, in a transaction. Also routes the message, unless it was already
   * routed. With the status INTERRUPTED, for a call that will not be answered, does not route the message.
   */
  finishAnswered(tx: Tx, messageId: string, status?: FinalMessageStatus): Promise<{ afterCommit(): Promise<void> }>
}

/** The facts from which routing decides. */
interface Facts {
  message: RoutedMessage
  /** The full text of the message, as agents read it. */
  content: string
  /** The sender. The sender may already have left the space. */
  sender: { name: string; kind: EntityKind }
  room: FullRoom
}

export function createPost(platform: Platform): Post {
  const { db, config } = platform
  const rooms = createRooms(platform)
  const publisher = createMessagePublisher(platform)

  function routedOf(facts: Facts, came: Woken): Routed {
    const woken = wokenOf(came)
    const topic = spaceTopic(facts.message.spaceId)
    return {
      runs: woken.runs,
      async afterCommit() {
        await Promise.all([
          publishWoken(platform, woken, topic),
          notifiesAnybody(facts) ? platform.signals.publish(DUE_JOBS_CHANNEL, {}) : null,
        ])
      },
    }
  }

  /** Writes a message optimistically. Returns null if only a transaction can decide the effects. */
  async function postExpecting(message: RoutedMessage, writer: MessageWriter) {
    const room = await rooms.cached(message.spaceId)
    const sender = room?.members.get(message.senderId)
    if (room === null || sender === undefined) return null
    const facts = { message, content: readableText(message.parts, []), sender, room }
    const routable = routableOf(message, sender)
    if (faultOfMentions(routable, room) !== null) return null
    const decision = decideWakes(routable, room)
    // Because of the loop limits, wake-ups by agents are counted one at a time, in a transaction.
    if (message.depth > 0 && decision.wakes.length > 0) return null
    const { turn } = decision
    // Turns in threads are not cached.
    if (message.threadRootId !== null && turn !== null) return null
    const expected = { version: room.version, isAsCached: isAsCached(facts), turn, effects: effectsOf(facts, decision) }
    const written = await writer.write({ expected })
    if (written === null) {
      rooms.forget(message.spaceId)
      return null
    }
    const { version } = written
    if (turn !== null && version !== undefined) Object.assign(room, { version, lastPicked: turn })
    return { message: written.message, routed: routedOf(facts, written.came as Woken) }
  }

  /** Routes a message in the transaction that finished it. */
  async function route(tx: Tx, message: Message): Promise<Routed> {
    const { answered, ...facts } = await readFacts(tx, message)
    const decision = decideWakes(routableOf(message, facts.sender), facts.room, answered)
    const { threadRootId, spaceId } = message
    if (decision.turn !== null && threadRootId === null) await takeTurn(tx, spaceId, decision.turn)
    if (decision.turn !== null && threadRootId !== null)
      await takeTurnInThread(tx, { threadRootId, spaceId }, decision.turn)
    // A human's message starts a new root, so its runs need not be counted yet.
    const isLimited = message.depth > 0 && decision.wakes.length > 0
    const limited = isLimited ? limitWakes(decision, await allowance(tx, message, config.limits)) : decision
    const changes = { message: Prisma.sql`SELECT * FROM "Message" WHERE id = ${message.id}` }
    const [row] = await tx.$queryRaw<{ came: Woken }[]>(
      statementOf({ ...changes, ...effectsOf(facts, limited) }, 'routed'),
    )
    if (row === undefined) throw new Error(`message ${message.id} to be routed does not exist`)
    return routedOf(facts, row.came)
  }

  return {
    async post(message, writer) {
      const posted = writer.needsLock === true ? null : await postExpecting(message, writer)
      if (posted !== null) return posted
      return db.transaction(async (tx) => {
        const written = await writer.write({ tx })
        if (written === null) throw writer.refused()
        const isFinished = written.message.routedAt !== null
        return { message: written.message, routed: isFinished ? await route(tx, written.message) : null }
      })
    },

    async finishAnswered(tx, messageId, status = 'COMPLETE') {
      const row = await finishAnswered(tx, messageId, status)
      if (row === undefined) return { async afterCommit() {} }
      const { wasRouted, ...written } = row
      const message = messageOfRow(written)
      const routed = wasRouted || status === 'INTERRUPTED' ? null : await route(tx, message)
      return {
        async afterCommit() {
          await publisher.ended(message, message.parts.length === 0 ? null : message.parts.length - 1)
          await routed?.afterCommit()
        },
      }
    },
  }
}

/** Returns the runs that a message started earlier. */
export async function startedBy({ prisma }: Platform['db'], messageId: string): Promise<Run[]> {
  const outcomes = await prisma.outcome.findMany({ where: { messageId, kind: { in: ['RUN', 'SKIPPED'] } } })
  const ids = outcomes.flatMap(({ runId }) => (runId === null ? [] : [runId]))
  return prisma.run.findMany({ where: { id: { in: ids } }, orderBy: { id: 'asc' } })
}

/**
 * Settles the waits for a reply that the message answers, and reads the facts for routing.
 * @throws BadInputError
 */
async function readFacts(tx: Tx, message: Message): Promise<Facts & { answered: Answered }> {
  const room = await readRoom(tx, message)
  if (room === null) throw new Error(`space ${message.spaceId} does not exist`)
  const member = room.members.get(message.senderId)
  const sender = member ?? (await tx.entity.findUniqueOrThrow({ where: { id: message.senderId } }))
  const fault = faultOfMentions(routableOf(message, sender), room)
  if (fault !== null) throw new BadInputError(fault)
  const content = await loadReadableText(tx, message.parts)
  const answered = await answerWaits(tx, { message, sender, content })
  return { message, content, sender, room, answered }
}

/**
 * Returns an SQL condition for the state that the version of a space does not cover: the message answers no wait, the
 * names are unchanged, the same agents are paused, and no budget is exhausted. A space without agents needs no such
 * check if a human posts.
 */
function isAsCached({ message, sender, room }: Facts): Prisma.Sql {
  const { agents } = room
  if (agents.length === 0 && message.runId === null) return Prisma.sql`true`
  const named = [{ id: message.senderId, name: sender.name }, ...mentionedIn(message, room)]
  const names = named.map(
    ({ id, name }) => Prisma.sql`EXISTS (SELECT 1 FROM "Entity" WHERE id = ${id} AND name = ${name})`,
  )
  const all = agents.map(({ id }) => id)
  const paused = agents.flatMap(({ id, paused }) => (paused === true ? [id] : []))
  return Prisma.sql`${isNoReply(message)} AND ${Prisma.join(names, ' AND ')} AND NOT EXISTS (
    SELECT 1 FROM "Agent" a WHERE a.id = ANY(${all}::text[])
      AND (a.paused <> (a.id = ANY(${paused}::text[])) OR ${overBudget({ spaceId: message.spaceId, ...rootOfMessage(message), agentId: Prisma.sql`a.id` })} IS NOT NULL))`
}

const routableOf = (message: RoutedMessage, { kind }: Facts['sender']) => ({
  senderId: message.senderId,
  senderKind: kind,
  mentions: mentionsOf(message),
})

/** Whether a member of the space must be notified of the message. */
function notifiesAnybody({ message, room }: Facts): boolean {
  const cause = { type: 'message' as const, senderId: message.senderId, mentionedIds: mentionsOf(message) }
  for (const [id, { kind, level }] of room.members)
    if (kind === 'HUMAN' && noticeKindOf(cause, { id, level }) !== null) return true
  return false
}

/** Returns the mentioned members with their names. */
function mentionedIn(message: RoutedMessage, { members }: FullRoom): { id: string; name: string }[] {
  return mentionsOf(message).flatMap((id) => {
    const member = members.get(id)
    return member === undefined ? [] : [{ id, name: member.name }]
  })
}

function triggerOf({ message, content, sender, room }: Facts): MessageTrigger {
  const { id: messageId, spaceId, senderId, parts } = message
  const space = { id: spaceId, name: room.spaceName }
  const text = textOf(parts) || content
  // The statement that writes the row assigns the sequence number.
  const provenance = provenanceOfMessage(message, sender.kind)
  return {
    type: 'SPACE_MESSAGE',
    space,
    seq: 0,
    messageId,
    threadRootId: message.threadRootId,
    text,
    content,
    sender: { ...sender, id: senderId },
    mentioned: mentionedIn(message, room),
    provenance,
  }
}

/**
 * SQL for the sequence number of the space's last message. This number is greater than the message's own number if
 * other messages were posted while the message was streaming.
 */
const LAST_SEQ = Prisma.sql`greatest(message.seq, (SELECT "lastSeq" FROM "Space" WHERE id = message."spaceId"))`

/** Returns the CTEs that write the runs, inbox events and outcomes of a message. They read from the CTE `message`. */
function effectsOf(facts: Facts, { wakes, verdicts }: Decision): Changes {
  const { message, room } = facts
  const [first] = wakes
  // Under MENTION_CHAIN routing, a human's message starts a chain with the agent that it wakes.
  const chainId = room.routing === 'MENTION_CHAIN' && first !== undefined ? newId('chn') : null
  const { runs, arrived, woken } = wakeSql(
    wakes,
    {
      trigger: triggerOf(facts),
      key: { messageId: message.id },
      lineage: { rootId: message.rootId, depth: message.depth, parentRunId: message.runId, chainId },
    },
    LAST_SEQ,
  )
  return {
    runs,
    arrived,
    ...(chainId === null || first === undefined ? {} : { chain: insertChainSql(chainId, first.id) }),
    ...(verdicts.length === 0 ? {} : { outcomes: upsertOutcomesSql(verdicts) }),
    ...(message.threadRootId === null ? {} : { readers: insertThreadReadersSql }),
    ...(notifiesAnybody(facts) ? { notices: notifyOfMessageSql(message.id) } : {}),
    routed: Prisma.sql`SELECT message.*, ${woken} AS came FROM message`,
  }
}

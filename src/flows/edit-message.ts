import type { Viewer } from '../access/viewer.ts'
import { type Marks, marksTogether, UNMARKED } from '../confidentiality/marks.ts'
import type { Run } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { ConflictError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { cut } from '../lib/json.ts'
import { checkMessageText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { LONGEST_REASON } from '../rules/mention.ts'
import { type Message, textOf } from '../rules/message.ts'
import { decideRetries, editedParts, faultOfEdit, MOST_EDITS, MOST_VERSIONS } from '../rules/message-changes.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { readableText } from '../spaces/readable-text.ts'
import { insertChains } from '../stores/chain-store.ts'
import { readersOf, rewriteWaiting, tellChange } from '../stores/inbox-store.ts'
import { insertVersion, lastVersion, markActed, rewriteMessage } from '../stores/message-store.ts'
import { setOutcomes } from '../stores/outcome-store.ts'
import { insertRunSpace } from '../stores/run-store.ts'
import { allowance } from './loop-limits.ts'
import {
  type ChangingRun,
  checkSender,
  lockReached,
  lockVisible,
  NO_SUCH_MESSAGE,
  type ReachedMessage,
} from './message-access.ts'
import { readRoom } from './rooms.ts'
import { loadMessageTrigger, type MessageTrigger, payloadOf, publishWoken, type Woken, wakeEach } from './wake.ts'

export interface EditMessageInput {
  messageId: string
  text: string
  /** Whether to start a new run of each agent that had answered the message. */
  retryRuns?: boolean | null
}

/** Edits messages. The earlier texts remain as versions. */
export interface MessageEdits {
  /**
   * Edits one of the viewer's messages. If the text is the same, the message stays unchanged. Wakes no agents, except
   * that `retryRuns` wakes those that had answered the message.
   * @throws NotFoundError, ForbiddenError, ConflictError, LimitExceededError; BadInputError if the text is invalid
   */
  edit(viewer: Viewer, input: EditMessageInput): Promise<{ message: Message; runs: Run[] }>
  /**
   * Edits a message of a run's agent, in the transaction of a tool call. The message gets the marks of the run.
   * @throws the same errors as `edit`
   */
  editOwn(
    tx: Tx,
    run: ChangingRun,
    input: { message: ReachedMessage; text: string },
  ): Promise<{ afterCommit(): Promise<void> }>
}

/** The effects of `retryRuns`. */
interface Retried {
  woken: Woken
  /** The new runs, and the runs that an earlier request with the same text had started. */
  runs: Run[]
}

const TOO_OFTEN = `A message can be edited at most ${MOST_EDITS} times: send another message instead.`

export function createMessageEdits(platform: Platform): MessageEdits {
  const { db, config, jobs } = platform
  const publisher = createMessagePublisher(platform)

  /** Publishes an edit. A message without `change` kept its text. */
  async function publish(message: Message & { change?: string }): Promise<void> {
    await publisher.updated(message)
    if (message.change !== undefined) jobs.withdraw(PUBLISH_CHANGE, message.change)
  }

  /**
   * Wakes the agents that had answered, by the same rules as for a new message, and records why other agents are not
   * woken. Agents that were already woken by an earlier request with the same text keep their outcomes; their runs
   * are returned too.
   */
  async function retry(tx: Tx, message: Message, number: number, answeredIds: ReadonlySet<string>): Promise<Retried> {
    const { id: messageId, spaceId, rootId, depth, runId: parentRunId } = message
    const room = answeredIds.size === 0 ? null : await readRoom(tx, message)
    if (room === null) return { woken: { runs: [], inboxes: [] }, runs: [] }
    const keyOf = (agentId: string) => `edited:${messageId}:${number}:${agentId}`
    const dedupKey = { in: [...answeredIds].map(keyOf) }
    const runsBefore = await tx.run.findMany({ where: { dedupKey }, orderBy: { id: 'asc' } })
    const eventsBefore = await tx.inboxEvent.findMany({
      where: { agentId: { in: [...answeredIds] }, dedupKey },
      select: { agentId: true },
    })
    const wokenBefore = new Set([...runsBefore, ...eventsBefore].map(({ agentId }) => agentId))
    const remainingIds = new Set([...answeredIds].filter((id) => !wokenBefore.has(id)))
    const { wakes, verdicts } = decideRetries(remainingIds, room.agents, await allowance(tx, message, config.limits))
    const trigger = await editedTrigger(tx, message)
    const wakings = wakes.map((agent) => {
      const chainId = room.routing === 'MENTION_CHAIN' ? newId('chn') : null
      const lineage = { rootId, depth, parentRunId, chainId }
      return { agent, chainId, wakeUp: { trigger, key: { once: keyOf(agent.id) }, lineage } }
    })
    const woken = await wakeEach(tx, wakings)
    const runOf = (agentId: string) => woken.runs.find((run) => run.agentId === agentId)?.id ?? null
    const chains = wakings.flatMap(({ agent, chainId }) =>
      chainId === null
        ? []
        : [{ id: chainId, spaceId, depth: 1, label: [], holderId: agent.id, holderRunId: runOf(agent.id) }],
    )
    await insertChains(tx, chains)
    const outcomes = verdicts.map((verdict) => ({ ...verdict, messageId, runId: runOf(verdict.agentId) }))
    await setOutcomes(tx, outcomes)
    return { woken, runs: [...runsBefore, ...woken.runs] }
  }

  return {
    async edit(viewer, { messageId, retryRuns, ...input }) {
      const text = checkMessageText(input.text, 'input.text')
      const { message, woken, runs } = await db.transaction(async (tx) => {
        const before = await lockVisible(tx, viewer, messageId)
        checkSender(before, viewer.id, 'edit')
        checkEditable(before)
        if (viewer.scope === 'HUMAN' && viewer.acting !== undefined) await markActed(tx, messageId)
        const answeredIds = retryRuns === true ? await answeredBy(tx, before) : NO_ONE
        const isChanged = textOf(before.parts) !== text
        const message: Message & { change?: string } = isChanged
          ? await write(tx, before, { text, by: UNMARKED, but: answeredIds })
          : before
        const retried = await retry(tx, message, await lastVersion(tx, messageId), answeredIds)
        return { message, ...retried }
      })
      await Promise.all([publish(message), publishWoken(platform, woken)])
      return { message, runs }
    },
    async editOwn(tx, run, { message: reached, ...input }) {
      const text = checkMessageText(input.text, 'input.text')
      const before = await lockReached(tx, reached)
      checkSender(before, run.agentId, 'edit')
      checkEditable(before)
      const message = await write(tx, before, { text, by: run, but: NO_ONE })
      await insertRunSpace(tx, run.id, message.spaceId)
      return { afterCommit: () => publish(message) }
    },
  }
}

const NO_ONE: ReadonlySet<string> = new Set()

function checkEditable(message: Message): void {
  const fault = faultOfEdit(message)
  if (fault !== null) throw new ConflictError(fault)
}

/**
 * Writes the new text of a locked message. Notifies the persistent agents that have read the old text, except the
 * agents in `but`.
 */
async function write(
  tx: Tx,
  before: Message,
  { text, by, but }: { text: string; by: Marks; but: ReadonlySet<string> },
): Promise<Message & { change: string }> {
  const { id: messageId } = before
  const number = (await lastVersion(tx, messageId)) + 1
  if (number > MOST_EDITS) throw new LimitExceededError(TOO_OFTEN)
  const message = await rewriteMessage(tx, messageId, {
    parts: editedParts(before.parts, text),
    marks: marksTogether([before, by]),
  })
  const { editedAt } = message
  await insertVersion(tx, { messageId, number, text: textOf(before.parts), editedAt }, MOST_VERSIONS)
  const content = readableText(message.parts, [])
  await rewriteWaiting(tx, { messageId, content, mention: cut(text, LONGEST_REASON) })
  const readers = await readersOf(tx, messageId)
  await tellReaders(tx, { message, number, agentIds: readers.filter((id) => !but.has(id)) })
  return message
}

/** Sends the new text of a message to the persistent agents that have read it. */
async function tellReaders(
  tx: Tx,
  { message, number, agentIds }: { message: Message; number: number; agentIds: string[] },
): Promise<void> {
  if (agentIds.length === 0) return
  const { id: messageId, spaceId, rootId, depth } = message
  const { provenance, ...trigger } = await editedTrigger(tx, message)
  const payload = payloadOf({ ...trigger, provenance, mentioned: [] }, { id: '' })
  await tellChange(tx, { messageId, number, spaceId, payload, rootId, depth, agentIds, ...provenance })
}

async function editedTrigger(tx: Tx, message: Message): Promise<MessageTrigger> {
  const { id: messageId, spaceId, senderId, createdAt } = message
  const trigger = await loadMessageTrigger(tx, { messageId, spaceId, senderId, seq: null })
  if (trigger.messageId === null) throw new NotFoundError(NO_SUCH_MESSAGE)
  return { ...trigger, edited: { messageId, sentAt: createdAt.toISOString() } }
}

/**
 * Returns the agents that answered the message, each in a run or think cycle that the message triggered and that
 * posted in the message's space.
 */
async function answeredBy(tx: Tx, { id, spaceId }: Message): Promise<Set<string>> {
  const rows = await tx.$queryRaw<{ agentId: string }[]>`
    SELECT r."agentId" FROM "Run" r WHERE r."triggerMessageId" = ${id}
      AND EXISTS (SELECT 1 FROM "Message" a WHERE a."runId" = r.id AND a."spaceId" = ${spaceId})
    UNION SELECT e."agentId" FROM "Outcome" o
      JOIN "InboxEvent" e ON e."agentId" = o."agentId" AND e."messageId" = o."messageId"
      WHERE o."messageId" = ${id} AND EXISTS (SELECT 1 FROM "Message" a WHERE a."runId" = e."runId" AND a."spaceId" = ${spaceId})`
  return new Set(rows.map(({ agentId }) => agentId))
}

import type { Viewer } from '../access/viewer.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { BadInputError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message } from '../rules/message.ts'
import { isEmoji, MOST_EMOJIS } from '../rules/message-changes.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { emojisOf, setReaction } from '../stores/message-store.ts'
import { insertRunSpace } from '../stores/run-store.ts'
import { type ChangingRun, lockReached, lockVisible, type ReachedMessage } from './message-access.ts'

export interface ReactInput {
  messageId: string
  emoji: string
  /** True to add the reaction (the default), false to remove it. */
  on?: boolean | null
}

/** Adds and removes reactions to messages. A reaction does not wake any agent. */
export interface Reacting {
  /**
   * Adds or removes the viewer's reaction. Repeating the call changes nothing.
   * @throws BadInputError if the reaction is not exactly one emoji; ForbiddenError for an admin token, and for a
   * deleted message; NotFoundError; LimitExceededError if the message already has the maximum number of different
   * emojis
   */
  react(viewer: Viewer, input: ReactInput): Promise<Message>
  /**
   * Adds a reaction of a run's agent, in the transaction of a tool call.
   * @throws the same errors as `react`
   */
  reactAs(
    tx: Tx,
    run: ChangingRun,
    input: { message: ReachedMessage; emoji: string },
  ): Promise<{ afterCommit(): Promise<void> }>
}

const NOT_AN_EMOJI = 'A reaction must be exactly one emoji.'
const TOO_MANY = `A message has at most ${MOST_EMOJIS} different emojis: use an existing one.`

export function createReacting(platform: Platform): Reacting {
  const publisher = createMessagePublisher(platform)

  async function publish(message: Message, change: string | null): Promise<void> {
    await publisher.updated(message)
    if (change !== null) platform.jobs.withdraw(PUBLISH_CHANGE, change)
  }

  return {
    async react(viewer, { messageId, emoji, on }) {
      if (viewer.scope === 'ADMIN') throw new ForbiddenError('An admin token cannot react: use the token of a human.')
      checkEmoji(emoji)
      const { message, change } = await platform.db.transaction(async (tx) => {
        const found = await lockVisible(tx, viewer, messageId)
        return changeReaction(tx, found, { emoji, entityId: viewer.id, on: on !== false })
      })
      await publish(message, change)
      return message
    },
    async reactAs(tx, run, { message: reached, emoji }) {
      checkEmoji(emoji)
      const found = await lockReached(tx, reached)
      const { message, change } = await changeReaction(tx, found, { emoji, entityId: run.agentId, on: true })
      await insertRunSpace(tx, run.id, message.spaceId)
      return { afterCommit: () => publish(message, change) }
    },
  }
}

function checkEmoji(emoji: string): void {
  if (!isEmoji(emoji)) throw new BadInputError(NOT_AN_EMOJI, 'input.emoji')
}

/** Changes a reaction to a locked message. The result's `change` is explained at `setReaction`. */
async function changeReaction(
  tx: Tx,
  message: Message,
  { emoji, entityId, on }: { emoji: string; entityId: string; on: boolean },
): Promise<{ message: Message; change: string | null }> {
  if (message.deletedAt !== null) throw new ForbiddenError('The message was deleted.')
  if (on) {
    const emojis = await emojisOf(tx, message.id)
    if (!emojis.includes(emoji) && emojis.length >= MOST_EMOJIS) throw new LimitExceededError(TOO_MANY)
  }
  const changed = await setReaction(tx, { messageId: message.id, emoji, entityId }, on)
  if (changed === null) return { message, change: null }
  const reactionCount = message.reactionCount + (on ? 1 : -1)
  return { message: { ...message, reactionCount }, change: changed.change }
}

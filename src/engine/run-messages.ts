import { newId } from '../lib/ids.ts'
import { storableText } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Clock } from '../platform/clock.ts'
import type { Message, MessageOrigin } from '../spaces/message.ts'
import type { MessageLease, Posting } from '../spaces/posting.ts'
import type { ShownCall } from '../spaces/shown-call.ts'
import { type RunInHand, ToolFailure } from '../tools/tool.ts'

/** The messages that a run writes, whatever its toolset. */
export interface RunMessages {
  /** Begins one in a space: the key makes it the same message however often. Null: the agent is not a member. */
  begin(spaceId: string, postKey: string, shows?: ShownCall): Promise<Message | null>
  /** The claim under which the run goes on with it. */
  leaseOf(message: Pick<Message, 'id' | 'spaceId'>): MessageLease
}

export interface RunMessagesOptions {
  posting: Pick<Posting, 'begin'>
  run: RunInHand
  /** Where the run's trigger came from: goes with messages in other spaces. */
  origin: MessageOrigin
}

export function createRunMessages({ posting, run, origin }: RunMessagesOptions): RunMessages {
  const { claim, agent } = run
  return {
    begin(spaceId, postKey, shows) {
      // As it is now: a think cycle's root and depth change with the events that it takes.
      const { id: runId, rootId, depth, triggerSpaceId } = claim.run
      return posting.begin({
        id: newId('msg'),
        spaceId,
        senderId: agent.id,
        runId,
        attempt: claim.attempt,
        postKey,
        mentionedAgentId: null,
        rootId,
        depth: depth + 1,
        origin: triggerSpaceId === spaceId ? null : origin,
        ...(shows ? { shows } : {}),
      })
    },
    leaseOf: ({ id, spaceId }) => ({ id, spaceId, runId: claim.run.id, attempt: claim.attempt }),
  }
}

/** A text as it can be posted. @throws ToolFailure for none, or one that is too long. */
export function postableText(given: string): string {
  const text = storableText(given)
  if (text.trim() !== '' && text.length <= LONGEST_MESSAGE) return text
  throw new ToolFailure('BAD_INPUT', `A message has 1 to ${LONGEST_MESSAGE} characters, not only white space.`)
}

const SAVE_INTERVAL_MS = 1000

/**
 * Says, once a second, that the text of a message which is being written should be put into the database, should the live log
 * be lost with this process.
 */
export function createSavePace({ now }: Clock): () => boolean {
  let savedAt = now()
  return () => {
    if (now() - savedAt < SAVE_INTERVAL_MS) return false
    savedAt = now()
    return true
  }
}

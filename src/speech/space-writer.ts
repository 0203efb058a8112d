import type { Platform } from '../platform/platform.ts'
import type { NewWait } from '../runs/tool-calls.ts'
import type { Message } from '../spaces/message.ts'
import { noActiveSpace } from '../tools/space/failures.ts'
import type { RunInHand, Speech, SpeechPresence, Tool, ToolUse } from '../tools/tool.ts'
import { createFirstDelta } from './first-delta.ts'
import { createMessageGrowth } from './message-growth.ts'
import type { MessagePolicy } from './message-policy.ts'
import { isMessageEnded, type RunPosting } from './run-posting.ts'
import { createShownParts } from './shown-parts.ts'
import { createSpokenParts } from './spoken-parts.ts'
import type { ToolResult } from './step.ts'

/** How a run is heard in spaces while this process executes it. */
export interface SpaceWriter extends Speech {
  /** The model begins to write the input of a speaking call whose turn it is: its text streams, unless what precedes it is refused. */
  open(callId: string, presence: SpeechPresence): void
  /** Whether people have seen of a call's text what is not whole, and may never be. */
  isHeard(callId: string): Promise<boolean>
  /** The model begins to write the input of a call that shows, whose turn it is: as soon as its space is known, it shows. */
  openPart(callId: string, tool: Tool): void
  /** More of the input of a call that speaks or shows, as raw JSON. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part; with `wait` somebody has to answer it, or to decide on it, within a time. False: it is to show nowhere.
   * @throws ToolFailure
   */
  show(use: ToolUse, wait: NewWait | null): Promise<boolean>
  /**
   * What was shown or written for a call is over: its message is whole, or INTERRUPTED where the model broke its input off.
   * True: its result is journaled with that. False: it posted nothing.
   */
  close(result: ToolResult): Promise<boolean>
  /** Nothing is being said or shown: `finish` would have nothing to do. */
  isQuiet(): boolean
  /** The run pauses or ends by itself: messages that were left open for more are whole now. */
  finish(): Promise<void>
}

interface SpaceWriterParts {
  run: RunInHand
  posting: RunPosting
  policy: MessagePolicy
}

/** The writer of an agent's messages: what its calls say and show becomes parts of messages, which end where the policy says. */
export function createSpaceWriter(platform: Platform, { run, posting, policy }: SpaceWriterParts): SpaceWriter {
  const growth = createMessageGrowth(posting, policy)
  const { claim } = run
  const heard = { onDelta: createFirstDelta(platform, claim), isMarked: () => claim.run.label.length > 0 }
  const spoken = createSpokenParts(platform, { runId: claim.run.id, ...heard, posting, policy, growth })
  const shown = createShownParts(platform, { posting, policy, growth })

  /** Those that are open for more parts are whole now. */
  async function finishOpen(): Promise<void> {
    for (const open of policy.open()) {
      const message = await growth.begin(open)
      if (open.parts.length > 0)
        await growth.grow(open, message, open.parts, { ends: { mention: null } }).catch(unlessEnded)
      else {
        await posting.interrupt(message, open.parts, null)
        policy.close(open)
      }
    }
  }

  return {
    open: spoken.open,
    isHeard: spoken.isHeard,
    openPart: shown.begin,
    write(callId, delta) {
      spoken.write(callId, delta)
      shown.write(callId, delta)
    },
    async post(use, text) {
      if (run.activeSpace === null) throw noActiveSpace()
      const journals = ({ id }: Message) => ({ type: 'result' as const, output: { success: true, messageId: id } })
      return spoken.say(use, { spaceId: run.activeSpace.id, text, mention: null, finishes: true, journals })
    },
    composite: policy.composite ? { say: spoken.say } : null,
    show: shown.show,
    close: async (result) => (await spoken.close(result)) || shown.settle(result),
    isQuiet: () => spoken.isQuiet() && shown.isQuiet() && policy.open().length === 0,
    async finish() {
      await spoken.interruptAll()
      // What has begun must exist before the run ends, or what streamed of it were lost.
      await shown.cancelDrafts()
      await finishOpen()
    },
  }
}

/** A message that somebody else has ended needs no end. */
function unlessEnded(error: unknown): void {
  if (!isMessageEnded(error)) throw error
}

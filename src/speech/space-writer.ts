import type { Platform } from '../platform/platform.ts'
import type { Message } from '../spaces/message.ts'
import { noActiveSpace } from '../tools/space/failures.ts'
import type { RunInHand, Speech, Tool, ToolUse } from '../tools/tool.ts'
import { createMessageGrowth } from './message-growth.ts'
import type { MessagePolicy } from './message-policy.ts'
import { isMessageEnded, type RunPosting, type ToolResult } from './run-posting.ts'
import { createShownParts } from './shown-parts.ts'
import { createSpokenParts } from './spoken-parts.ts'

/** How a run is heard in spaces while this process executes it. */
export interface SpaceWriter extends Speech {
  /** The model begins to write the input of a speaking call whose turn it is: `field` of it streams. */
  open(callId: string, field: string): void
  /** The model begins to write the input of a call that shows, whose turn it is: where its space is known, it shows already. */
  openPart(callId: string, tool: Tool): void
  /** More of a speaking call's input, as raw JSON. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part; with `waitMs` somebody has to answer it within so long. False: it is to show nowhere.
   * @throws ToolFailure
   */
  show(use: ToolUse, waitMs: number | null): Promise<boolean>
  /**
   * What was shown or written for a call is over: its message is whole, or INTERRUPTED where the model broke its input off.
   * True: its result is journaled with that. False: it posted nothing.
   */
  close(result: ToolResult): Promise<boolean>
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
  const spoken = createSpokenParts(platform, { runId: run.claim.run.id, posting, policy, growth })
  const shown = createShownParts({ posting, policy, growth })

  /** Those that are open for more parts are whole now. */
  async function finishOpen(): Promise<void> {
    for (const open of policy.open()) {
      const message = await growth.begin(open)
      if (open.parts.length > 0)
        await growth.grow(open, message, open.parts, { ends: { mention: null } }).catch(unlessEnded)
      else await posting.interrupt(message, [], null).then(() => policy.close(open))
    }
  }

  return {
    open: spoken.open,
    openPart: shown.begin,
    write: spoken.write,
    async post(use, text) {
      if (run.activeSpace === null) throw noActiveSpace()
      const journals = ({ id }: Message) => ({ type: 'result' as const, output: { success: true, messageId: id } })
      return spoken.say(use, { spaceId: run.activeSpace.id, text, mention: null, finishes: true, journals })
    },
    composite: policy.composite ? { say: spoken.say } : null,
    show: shown.show,
    close: async (result) => (await spoken.close(result)) || shown.settle(result),
    async finish() {
      await spoken.interruptAll()
      await finishOpen()
      // What has begun must exist before the run ends, or what streamed of it were lost.
      await shown.begun()
    },
  }
}

/** A message that somebody else has ended needs no end. */
function unlessEnded(error: unknown): void {
  if (!isMessageEnded(error)) throw error
}

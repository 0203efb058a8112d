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

/** Posts a run's messages while this process executes it. */
export interface SpaceWriter extends Speech {
  /** A posting call's input begins to stream: streams its text, unless the fields before it are refused. */
  open(callId: string, presence: SpeechPresence): void
  /** Whether people have seen an unfinished text of the call. */
  isHeard(callId: string): Promise<boolean>
  /** The input of a visible call begins to stream: shows it once its space is known. */
  openPart(callId: string, tool: Tool): void
  /** Adds raw JSON of the input of a posting or visible call. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part; with `wait`, somebody must answer or approve it in time. False: it is
   * not shown.
   * @throws ToolFailure
   */
  show(use: ToolUse, wait: NewWait | null): Promise<boolean>
  /**
   * Finishes what was shown or written for a call: its message is complete, or INTERRUPTED if the
   * model broke off. True: the result is journaled with that. False: the call posted nothing.
   */
  close(result: ToolResult): Promise<boolean>
  /** Whether nothing is open: `finish` would have no effect. */
  isQuiet(): boolean
  /** The run pauses or ends by itself: finishes the messages that are open for more parts. */
  finish(): Promise<void>
}

interface SpaceWriterParts {
  run: RunInHand
  posting: RunPosting
  policy: MessagePolicy
}

/** Writes a run's messages: the texts and visible calls become parts of messages, which end by the policy. */
export function createSpaceWriter(platform: Platform, { run, posting, policy }: SpaceWriterParts): SpaceWriter {
  const growth = createMessageGrowth(posting, policy)
  const { claim } = run
  const heard = { onDelta: createFirstDelta(platform, claim), isMarked: () => claim.run.label.length > 0 }
  const spoken = createSpokenParts(platform, { runId: claim.run.id, ...heard, posting, policy, growth })
  const shown = createShownParts(platform, { posting, policy, growth })

  /** Finishes the messages that are open for more parts. */
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
      // Messages must exist before the run ends, or their streamed text would be lost.
      await shown.cancelDrafts()
      await finishOpen()
    },
  }
}

/** A message that somebody else has ended needs no end. */
function unlessEnded(error: unknown): void {
  if (!isMessageEnded(error)) throw error
}

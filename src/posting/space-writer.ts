import { readPartsSoFar } from '../flows/recover-messages.ts'
import type { JsonObject } from '../lib/json.ts'
import { histogram } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message } from '../rules/message.ts'
import type { Claim } from '../runs/claiming.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import type { Speech, SpeechPresence, Tool, ToolScene, ToolUse } from '../tools/tool.ts'
import { createGuard } from './guard.ts'
import { composites, createMessageGrowth, eachPartAMessage, type MessagePolicy } from './message-policy.ts'
import {
  createRunMessages,
  isMessageEnded,
  type OriginIn,
  type PlaceIn,
  type RunMessages,
  type RunMessagesParts,
  type ToolResult,
  withConfidentialityGuard,
} from './run-messages.ts'
import { createStreamingCalls, type HowShown } from './streaming-call.ts'
import { createStreamingTexts, type TextBefore } from './streaming-text.ts'

/** Posts a run's messages while this process executes it. */
export interface SpaceWriter extends Speech {
  /**
   * Called when a posting call's input begins to stream. Streams the text, unless the fields before the text are
   * refused. If a text of the call is already streaming, the model is generating it again. The message then continues,
   * and its text is replaced from the first difference on.
   */
  open(callId: string, presence: SpeechPresence): void
  /** Whether people have seen unfinished text of the call. */
  isHeard(callId: string): Promise<boolean>
  /** Called when the input of a visible call begins to stream. Shows the call when its space is known. */
  openPart(callId: string, tool: Tool): void
  /** Appends raw JSON to the input of a posting or visible call. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part. If the call waits, the same write stores the wait. Returns false if the call is not shown.
   * @throws ToolFailure
   */
  show(use: ToolUse, how: HowShown): Promise<boolean>
  /** Returns the space in which people would be asked about a call; null if there is none. */
  spaceOfQuestion(state: JsonObject): string | null
  /**
   * Finishes the message that shows or streams a call. The message becomes complete, or INTERRUPTED if the model was
   * cut off. Returns true if it has journaled the result, and false if the call posted nothing.
   */
  close(result: ToolResult): Promise<boolean>
  /** Whether the run has posted a message other than its closing text. */
  hasPosted(): boolean
  /** Posts the closing text of a run that has posted nothing. Further calls do nothing. @throws ToolFailure */
  postPlainText(spaceId: string, text: string): Promise<void>
  /** Returns the call that continues the text of an earlier attempt; null if there is none or if it has ended. */
  continued(): string | null
  /** Whether no message is open, so that `finish` would have no effect. */
  isQuiet(): boolean
  /** Finishes the messages that can still get parts. Called when the run pauses or ends normally. */
  finish(): Promise<void>
}

interface SpaceWriterParts {
  run: RunExecution
  posting: RunMessages
  policy: MessagePolicy
  before: TextBefore | null
}

/**
 * Creates the writer of a run's messages. Texts and visible calls become parts of messages. The policy decides when a
 * message ends.
 */
export function createSpaceWriter(platform: Platform, { run, posting, policy, before }: SpaceWriterParts): SpaceWriter {
  const growth = createMessageGrowth(posting, policy)
  const { id: runId } = run.context.run
  const heard = { onDelta: createFirstDelta(platform, run.context), isMarked: () => run.context.run.label.length > 0 }
  const spoken = createStreamingTexts(platform, { runId, ...heard, posting, policy, growth, before })
  const shown = createStreamingCalls(platform, { posting, policy, growth })

  /** Finishes the messages that can still get parts. */
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
    async post(use, text, replyTo) {
      const { activeSpace } = run.context
      if (activeSpace === null) throw noActiveSpace()
      const journals = ({ id }: Message) => ({ type: 'result' as const, output: { success: true, messageId: id } })
      return spoken.say(use, {
        spaceId: activeSpace.id,
        ...replying(replyTo),
        text,
        mention: null,
        finishes: true,
        journals,
      })
    },
    async postFile({ callId }, spaceId, file) {
      const message = await posting.begin({ spaceId, postKey: callId, composite: false })
      if (message === null) throw notAMember()
      const [posted] = message.parts
      if (posted?.type === 'file') return { message, fileId: posted.fileId }
      const part = { type: 'file' as const, fileId: file.id, name: file.name, mediaType: file.mediaType }
      await posting.grow(message, [part], { adds: { type: 'file', file }, ends: { mention: null } })
      return { message, fileId: file.id }
    },
    async postPlainText(spaceId, text) {
      const message = await posting.begin({ spaceId, postKey: PLAIN_TEXT, composite: false, fromPlainText: true })
      if (message === null) throw notAMember()
      if (message.status !== 'STREAMING') return
      await posting.grow(message, [{ type: 'text', text }], { adds: { type: 'text' }, ends: { mention: null } })
    },
    hasPosted: posting.hasPosted,
    composite: policy.composite ? { say: spoken.say } : null,
    show: shown.show,
    spaceOfQuestion: shown.spaceOfQuestion,
    close: async (result) => (await spoken.close(result)) || shown.settle(result),
    continued: spoken.continued,
    isQuiet: () => spoken.isQuiet() && shown.isQuiet() && policy.open().length === 0,
    async finish() {
      await spoken.interruptAll()
      // Waits until the messages exist, because their streamed text would be lost if the run ended first.
      await shown.cancelDrafts()
      await finishOpen()
    },
  }
}

const replying = (replyTo: string | null) => (replyTo === null ? {} : { replyTo })

/** The idempotency key, within the run, of the message with the run's closing text. */
const PLAIN_TEXT = 'plain text'

/** Ignores the error if somebody else has ended the message. @throws any other error */
function unlessEnded(error: unknown): void {
  if (!isMessageEnded(error)) throw error
}

interface WriterInput {
  speech: RunMessagesParts
  run: RunExecution
  scene: { agent: Pick<ToolScene['agent'], 'toolset'>; originIn: OriginIn; placeIn: PlaceIn }
  /** Whether the run has posted nothing yet. */
  fresh: boolean
  /** Whether the text that an earlier attempt has left unfinished will be written again. */
  continues: boolean
}

/** Creates the writer for the agent's toolset. It posts in the entered space, or in the spaces given in the calls. */
export async function openWriter(
  platform: Platform,
  { speech, run, scene, fresh, continues }: WriterInput,
): Promise<SpaceWriter> {
  const guard = createGuard(() => run.context.run, speech.discretion)
  const isOpen = async (id: string) =>
    (await platform.db.prisma.message.count({ where: { id, status: 'STREAMING' } })) > 0
  const posting = withConfidentialityGuard(
    createRunMessages(platform, speech, { run, originIn: scene.originIn, placeIn: scene.placeIn, guard }),
    guard,
    isOpen,
  )
  const begun = fresh ? [] : await posting.begun()
  const isEach = scene.agent.toolset === 'ACTIVE_SPACE'
  const policy = isEach
    ? eachPartAMessage(run, begun, { defaultIn: scene.placeIn })
    : composites(run, begun, { mayWrite: posting.mayWrite, defaultIn: scene.placeIn })
  const before = continues ? await readTextBefore(platform, policy) : null
  return createSpaceWriter(platform, { run, posting, policy, before })
}

/** Reads the text that an earlier attempt has left unfinished. */
async function readTextBefore({ log }: Platform, policy: MessagePolicy): Promise<TextBefore | null> {
  const unfinished = policy.textBefore()
  const message = await unfinished?.open.message
  if (unfinished === null || message == null) return null
  const part = (await readPartsSoFar(log, message))[unfinished.open.parts.length]
  return { ...unfinished, text: part?.type === 'text' ? part.text : '' }
}

/**
 * Executes `stretch`, and then finishes the open messages. If `stretch` aborts or throws, the messages stay open for
 * the next attempt or for the cleanup of the run.
 */
export async function finishAfter<T extends { type: string }>(
  writer: SpaceWriter,
  stretch: () => Promise<T>,
): Promise<T> {
  const end = await stretch()
  if (end.type !== 'aborted') await writer.finish()
  return end
}

const SECONDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300]

/**
 * Returns a function to call at each delta of a run. The first call records the time since the run was queued, unless
 * the run started in another process.
 */
export function createFirstDelta({ metrics, clock }: Platform, { run, kind }: Claim): () => void {
  const seconds = histogram(
    metrics,
    'parley_first_delta_seconds',
    'Time from queueing a run to publishing its first text delta in a space.',
    { buckets: SECONDS },
  )
  let isAwaited = kind === 'started'
  return () => {
    if (!isAwaited) return
    isAwaited = false
    seconds.observe(Math.max(0, clock.now() - run.queuedAt.getTime()) / 1000)
  }
}

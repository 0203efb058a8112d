import { together } from '../confidentiality/marks.ts'
import { isPreview, isUrgent, previewLineOf } from '../context/inbox-message.ts'
import type { InboxEvent, Run, Step } from '../generated/prisma/client.ts'
import { nameIn } from '../lib/json.ts'
import type { InboxSeen } from '../platform/conductor.ts'
import type { Recorded, Recording } from './recording.ts'

// Some parts of a prompt describe concurrent activity, so a few milliseconds decide what they contain. The replay
// treats these parts as inputs of a run, like the answers of its model, and not as decisions of an agent.

/** The maximum difference between the clocks of the database and a worker. */
export const CLOCKS_MS = 500

export interface PromptMessage {
  role: string
  content: unknown
}

const contentsOf = ({ messagesAdded }: Pick<Recorded<Step>, 'messagesAdded'>): unknown[] =>
  (messagesAdded as { role: string; content: unknown }[]).map(({ content }) => content)

/** Returns the inbox of a recorded think cycle before a step; null if the recording does not contain the step. */
export function inboxSeen(recording: Recording, run: Recorded<Run>, index: number): InboxSeen | null {
  const step = recording.steps.find((one) => one.runId === run.id && one.index === index)
  if (step === undefined) return null
  const contents = contentsOf(step)
  if (contents.some(isUrgent)) return { type: 'urgent' }
  const text = contents.find(isPreview)
  if (text === undefined) return { type: 'nothing' }
  const lines = new Set(text.split('\n'))
  const shown = recording.inboxEvents.filter(
    (event) => event.agentId === run.agentId && lines.has(previewLineOf(event as unknown as InboxEvent)),
  )
  return { type: 'preview', text, marks: together(shown) }
}

/** Whether a step shows events that were claimed during its cycle. */
export const showsUrgent = (step: Pick<Recorded<Step>, 'messagesAdded'>): boolean => contentsOf(step).some(isUrgent)

/**
 * Returns those lines of a recorded preview that show a message of this space which was never posted. Returns none for
 * a step without a preview.
 */
export function inventedInPreview({ space, inboxEvents }: Recording, agentId: string, step: Recorded<Step>): string[] {
  const text = contentsOf(step).find(isPreview)
  if (text === undefined) return []
  const own = inboxEvents.filter((event) => event.agentId === agentId)
  const real = new Set(own.map((event) => previewLineOf(event as unknown as InboxEvent)))
  // The recording does not contain events of other spaces.
  return text.split('\n').filter((line) => line.startsWith(`  [${nameIn(space.name)}]`) && !real.has(line))
}

/** Removes the previews of the inbox from messages. */
export const withoutPreviews = (messages: unknown): PromptMessage[] =>
  (messages as PromptMessage[]).filter(({ content }) => !isPreview(content))

/**
 * Whether it is a matter of chance that a prompt lists another run, because that run began or ended around the time
 * when the prompt was built. The prompt was built after the previous step was settled and before the time of this step.
 */
export function isMomentary(
  { messages, runs, steps, calls }: Recording,
  step: Recorded<Step>,
  other: Recorded<Run>,
): boolean {
  const timeOf = (at: string | null | undefined) => (at == null ? null : Date.parse(at))
  const endsOf = (runId: string, before: number) =>
    steps
      .filter((one) => one.runId === runId && one.index < before)
      .flatMap(({ index, startedAt, durationMs }) => [
        Date.parse(startedAt) + (durationMs ?? 0),
        ...calls
          .filter((call) => call.runId === runId && call.stepIndex === index)
          .flatMap(({ settledAt }) => timeOf(settledAt) ?? []),
      ])
  const until = Date.parse(step.startedAt)
  const begun = timeOf(runs.find(({ id }) => id === step.runId)?.startedAt) ?? until
  const since = Math.max(begun, ...endsOf(step.runId, step.index).filter((at) => at <= until))
  const isAbout = (from: number, to: number) => from - CLOCKS_MS <= until && to + CLOCKS_MS >= since
  const trigger = messages.find(({ id }) => id === other.triggerMessageId)
  const queuedAt = Date.parse(other.queuedAt)
  if (isAbout(Math.min(queuedAt, timeOf(trigger?.createdAt) ?? queuedAt), queuedAt)) return true
  const finishedAt = timeOf(other.finishedAt)
  if (finishedAt === null) return false
  const worked = endsOf(other.id, Number.POSITIVE_INFINITY).filter((at) => at <= finishedAt)
  return isAbout(Math.max(timeOf(other.startedAt) ?? queuedAt, ...worked.slice(-1)), finishedAt)
}

import { decodeCursor, encodeCursor } from '../../src/broker/cursor.ts'
import { type EventLog, KEPT_ENTRIES } from '../../src/broker/log.ts'
import { type RunLogEvent, runTopic } from '../../src/broker/topics.ts'
import type { Run, ToolCall } from '../../src/generated/prisma/client.ts'
import type { Database } from '../../src/platform/db.ts'
import type { TestApplication } from './application.ts'

/** The final rows without ids and times, which are the same however often the run was interrupted. */
export interface Remains {
  /** Each `seq` from 1 to the last one in the space, if there is no gap. */
  seqs: number[]
  lastSeq: number
  /** All visible parts in order, except those that another part repeats. */
  said: unknown[]
  /** All other rows. */
  rest: Record<string, unknown>
}

/** Reads the rows of an agent's runs in a space. */
export async function remainsOf({ app }: TestApplication, spaceId: string, agentId: string): Promise<Remains> {
  const { log, db } = app.platform
  const { prisma } = db
  const where = { agentId }
  const [space, messages, outcomes, runs, steps, calls, decisions, goals, inbox, cycles] = await Promise.all([
    prisma.space.findUniqueOrThrow({ where: { id: spaceId } }),
    prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
    prisma.outcome.findMany({ where }),
    prisma.run.findMany({ where, orderBy: { id: 'asc' } }),
    prisma.step.findMany({ where: { run: where }, orderBy: [{ runId: 'asc' }, { index: 'asc' }] }),
    prisma.toolCall.findMany({ where, orderBy: [{ stepIndex: 'asc' }, { id: 'asc' }] }),
    decisionsOf(prisma, agentId),
    prisma.goal.findMany({ where }),
    prisma.inboxEvent.findMany({ where }),
    prisma.cycle.findMany({ where, orderBy: { index: 'asc' } }),
  ])
  return {
    seqs: messages.map(({ seq }) => seq),
    lastSeq: space.lastSeq,
    said: saidIn(messages),
    rest: anonymous({
      outcomes: outcomes.map(({ kind, reason }) => ({ kind, reason })),
      runs: runs.map(({ status, summary, error, stepCount }) => ({ status, summary, error, stepCount })),
      steps: steps.map(({ index, finishReason, assistant }) => ({ index, finishReason, assistant })),
      told: await Promise.all(runs.map((run) => toldOf(log, run, calls))),
      calls: calls.map(({ stepIndex, toolName, status, approvalState, input, output, error }) => ({
        stepIndex,
        toolName,
        status,
        approvalState,
        input,
        output,
        error,
      })),
      places: messages
        .filter(({ status }) => status === 'COMPLETE')
        .map(({ threadRootId }) => messages.find(({ id }) => id === threadRootId)?.seq ?? 'space'),
      decisions,
      goals: goals.map(({ description, status }) => ({ description, status })),
      inbox: inbox.map(({ doneAt }) => doneAt !== null),
      cycles: cycles.map(({ index, messages }) => ({ index, messages })),
    }),
  }
}

/**
 * The events of a run that correspond to its journal. They belong to all steps except the last, whose event can come with the
 * end, and to calls that were settled earlier.
 */
async function toldOf(log: EventLog, { id: runId, stepCount, finishedAt }: Run, calls: ToolCall[]): Promise<unknown[]> {
  const [head = ''] = await log.heads([runTopic(runId)])
  const whole = await log.read(runTopic(runId), encodeCursor({ ...decodeCursor(head), offset: 0 }), KEPT_ENTRIES)
  const isLate = (call: ToolCall | undefined) => (call?.settledAt ?? 0) > (finishedAt ?? 0)
  const events = whole.type === 'publications' ? whole.publications.map(({ event }) => event as RunLogEvent) : []
  const told = events.flatMap((event) => {
    if (event.type === 'RunStepFinished') return event.step < stepCount - 1 ? [`step ${event.step} is over`] : []
    if (event.type !== 'RunToolCalled' && event.type !== 'RunToolReturned') return []
    const index = calls.findIndex(({ id }) => id === event.toolCallId)
    return event.type === 'RunToolReturned' && isLate(calls[index]) ? [] : [`${event.type} ${index}`]
  })
  return told.sort()
}

function decisionsOf(prisma: Database['prisma'], agentId: string): Promise<object[]> {
  return prisma.$queryRaw<object[]>`
    SELECT h.name, d.approve, d.counted FROM "Decision" d JOIN "ToolCall" c ON c.id = d."toolCallId"
      JOIN "Entity" h ON h.id = d."humanId" WHERE c."agentId" = ${agentId} ORDER BY d.at`
}

/** A part that was cut off and then repeated from its start counts once. */
function saidIn(messages: { status: string; parts: unknown }[]): unknown[] {
  const parts = messages.flatMap(({ status, parts }) =>
    (parts as { text?: string }[]).map((part, index, all) => ({
      text: part.text ?? '',
      isCut: status === 'INTERRUPTED' && index === all.length - 1,
    })),
  )
  return parts.flatMap(({ text, isCut }, index) =>
    isCut && parts[index + 1]?.text.startsWith(text) === true ? [] : [text],
  )
}

/** Replaces ids by their kind, or by names if their rows have one. Leaves out times. */
export function anonymous<T>(value: T): T {
  const seen = new Map<string, number>()
  const text = JSON.stringify(value)
    .replace(/\b([a-z]{3})_[0-9a-z]{20,}/g, '$1#')
    .replace(/\bcall_\w+/g, (id) => {
      if (!seen.has(id)) seen.set(id, seen.size)
      return `call#${seen.get(id)}`
    })
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d\d:\d\d(:\d\d)?\b/g, 'T')
  return JSON.parse(text) as T
}

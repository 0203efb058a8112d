import type { ModelMessage } from 'ai'
import type { Recalling } from '../agents/recall.ts'
import { Prisma, type Step } from '../generated/prisma/client.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import type { Models } from '../models/models.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { sentAndAdded } from '../runs/conversation.ts'
import { type FailedModel, type JournaledStep, journaledSteps } from '../runs/journal.ts'
import { messagesFor } from '../runs/model-messages.ts'
import type { Withheld } from '../runs/withheld.ts'
import { recalledOf } from './cycle-state.ts'

/** The prompt and response of a step, for admins. */
export interface StepRecord {
  id: string
  index: number
  /** The model that responded. */
  model: string
  failedModels: FailedModel[]
  instructions: string
  /** The messages that were sent, as ModelMessage[]. */
  messages: unknown[]
  activeTools: string[]
  /** The messages that the step added, as ModelMessage[]. */
  response: unknown[]
  finishReason: string
  inputTokens: number
  cachedInputTokens: number
  outputTokens: number
  usageEstimated: boolean
  costNanos: number | null
  msToFirstChunk: number | null
  /** When the model was called. */
  startedAt: Date
  durationMs: number
  /** The confidential spaces whose content the run had received by then. */
  label: string[]
  withheld: Withheld[]
}

/** Reads the steps of journals, with their complete prompts. */
export interface StepRecords {
  /**
   * Returns a page of each run's steps, oldest first, in the order of the ids. Executes at most five statements for any
   * number of runs.
   */
  pageMany(runIds: readonly string[], request: PageRequest): Promise<Page<StepRecord>[]>
}

const EMPTY: Page<StepRecord> = { items: [], hasNextPage: false, hasPreviousPage: false }

export function createStepRecords(
  { db }: Platform,
  { recalling, models }: { recalling: Recalling; models: Pick<Models, 'takesFile'> },
): StepRecords {
  return {
    async pageMany(runIds, request) {
      const source = Prisma.sql`SELECT id FROM "Step" WHERE "runId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(runIds)], source, order: 'oldest', request })
      // A prompt is assembled from the steps before it, so the steps after the page are not needed.
      const upToPages = [...pages].flatMap(([runId, { items }]) => {
        const last = items.at(-1)
        return last === undefined ? [] : [{ runId, id: { lte: last } }]
      })
      const [steps, cycles] = await Promise.all([
        db.prisma.step.findMany({ where: { OR: upToPages }, orderBy: { index: 'asc' } }),
        db.prisma.run.findMany({ where: { id: { in: [...runIds] }, triggerType: 'INBOX' }, select: RECORDED }),
      ])
      const ofSteps = steps.map(({ runId, index: stepIndex }) => ({ runId, stepIndex }))
      const calls = await db.prisma.toolCall.findMany({ where: { OR: ofSteps }, orderBy: { id: 'asc' } })
      // The prompt of a think cycle begins with the recalled consciousness, which is not in the journal.
      const shown = cycles.length === 0 ? new Map<string, unknown[]>() : await recalledOf(recalling, cycles)
      const records = new Map<string, StepRecord>()
      for (const [runId, ofRun] of Map.groupBy(journaledSteps(steps, calls), ({ step }) => step.runId)) {
        const asynchronous = cycles.some(({ id }) => id === runId)
        for (const record of recordsOf(ofRun, shown.get(runId) ?? [], { asynchronous, models }))
          records.set(record.id, record)
      }
      return runIds.map((runId) => {
        const page = pages.get(runId)
        if (page === undefined) return EMPTY
        return { ...page, items: page.items.flatMap((id) => records.get(id) ?? []) }
      })
    },
  }
}

const RECORDED = { id: true, agentId: true, triggerType: true, state: true } as const

/**
 * Returns the records of a run's steps. A step's row contains only the messages that its prompt adds to the previous
 * step's prompt. For the first step, the row contains the messages that follow `recorded`.
 */
function recordsOf(
  steps: JournaledStep<Step>[],
  recorded: unknown[],
  { models, ...mode }: { asynchronous: boolean; models: Pick<Models, 'takesFile'> },
): StepRecord[] {
  let instructions = ''
  const exchanged = sentAndAdded(steps, recorded as ModelMessage[], mode)
  return steps.map(({ step }, index) => {
    instructions = step.instructions ?? instructions
    const { sent, response } = exchanged[index] ?? { sent: [], response: [] }
    return {
      ...step,
      failedModels: step.failedModels as unknown as FailedModel[],
      instructions,
      messages: messagesFor(step.model, sent, (mediaType) => models.takesFile(step.model, mediaType)),
      response,
      finishReason: step.finishReason ?? 'unknown',
      durationMs: step.durationMs ?? 0,
      withheld: (step.withheld ?? []) as unknown as Withheld[],
    }
  })
}

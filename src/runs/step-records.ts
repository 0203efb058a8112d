import type { ModelMessage } from 'ai'
import { Prisma, type Run, type Step } from '../generated/prisma/client.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { sentAndAdded } from './conversation.ts'
import { type FailedModel, type JournaledStep, journaledSteps } from './journal.ts'
import { messagesFor } from './model-messages.ts'
import type { Withheld } from './withheld.ts'

/** The prompt and response of a step: for admins. */
export interface StepRecord {
  id: string
  index: number
  /** The model that responded. */
  model: string
  failedModels: FailedModel[]
  instructions: string
  /** ModelMessage[] as sent. */
  messages: unknown[]
  activeTools: string[]
  /** ModelMessage[] that the step added. */
  response: unknown[]
  finishReason: string
  inputTokens: number
  cachedInputTokens: number
  outputTokens: number
  usageEstimated: boolean
  costNanos: number | null
  msToFirstChunk: number | null
  durationMs: number
  /** The confidential spaces whose content the run had received. */
  label: string[]
  withheld: Withheld[]
}

export interface StepRecordHooks {
  /**
   * Returns by run the consciousness that a think cycle was given: it comes first in the prompt,
   * and is not in the journal.
   */
  recalled(cycles: RecordedRun[]): Promise<Map<string, unknown[]>>
}

type RecordedRun = Pick<Run, 'id' | 'agentId' | 'triggerType' | 'state'>

/** Reads the journal's steps, with their prompts reassembled. */
export interface StepRecords {
  /**
   * A page of each run's steps, oldest first, in the order of the ids. At most five statements,
   * however many runs.
   */
  pageMany(runIds: readonly string[], request: PageRequest): Promise<Page<StepRecord>[]>
}

const EMPTY: Page<StepRecord> = { items: [], hasNextPage: false, hasPreviousPage: false }

export function createStepRecords({ db }: Platform, { recalled }: StepRecordHooks): StepRecords {
  return {
    async pageMany(runIds, request) {
      const source = Prisma.sql`SELECT id FROM "Step" WHERE "runId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(runIds)], source, order: 'oldest', request })
      const where = { runId: { in: [...runIds] } }
      const [steps, calls, cycles] = await Promise.all([
        db.prisma.step.findMany({ where, orderBy: { index: 'asc' } }),
        db.prisma.toolCall.findMany({ where, orderBy: { id: 'asc' } }),
        db.prisma.run.findMany({ where: { id: { in: [...runIds] }, triggerType: 'INBOX' }, select: RECORDED }),
      ])
      const shown = cycles.length === 0 ? new Map<string, unknown[]>() : await recalled(cycles)
      const records = new Map<string, StepRecord>()
      for (const [runId, ofRun] of Map.groupBy(journaledSteps(steps, calls), ({ step }) => step.runId)) {
        const asynchronous = cycles.some(({ id }) => id === runId)
        for (const record of recordsOf(ofRun, shown.get(runId) ?? [], { asynchronous })) records.set(record.id, record)
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

/** A step's row holds only what its prompt adds to the previous step; the first one what follows `recorded`. */
function recordsOf(steps: JournaledStep<Step>[], recorded: unknown[], mode: { asynchronous: boolean }): StepRecord[] {
  let instructions = ''
  const exchanged = sentAndAdded(steps, recorded as ModelMessage[], mode)
  return steps.map(({ step }, index) => {
    instructions = step.instructions ?? instructions
    const { sent, response } = exchanged[index] ?? { sent: [], response: [] }
    return {
      ...step,
      failedModels: step.failedModels as unknown as FailedModel[],
      instructions,
      messages: messagesFor(step.model, sent),
      response,
      finishReason: step.finishReason ?? 'unknown',
      durationMs: step.durationMs ?? 0,
      withheld: (step.withheld ?? []) as unknown as Withheld[],
    }
  })
}

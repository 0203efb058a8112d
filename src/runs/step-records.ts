import { Prisma } from '../generated/prisma/client.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { messagesOf } from './conversation.ts'
import { type JournaledStep, journaledSteps } from './journal.ts'

/** What a step was sent, and what came back: for admins. */
export interface StepRecord {
  id: string
  index: number
  model: string
  instructions: string
  /** ModelMessage[] as sent. */
  messages: unknown[]
  activeTools: string[]
  /** ModelMessage[] that the step added. */
  response: unknown[]
  finishReason: string
  inputTokens: number
  outputTokens: number
  usageEstimated: boolean
  msToFirstChunk: number | null
  durationMs: number
}

/** The journal's steps, with what each was sent put together again. */
export interface StepRecords {
  /** A page of each run's steps, oldest first, in the order of the ids. Three statements, however many runs. */
  pageMany(runIds: readonly string[], request: PageRequest): Promise<Page<StepRecord>[]>
}

const EMPTY: Page<StepRecord> = { items: [], hasNextPage: false, hasPreviousPage: false }

export function createStepRecords({ db }: Platform): StepRecords {
  return {
    async pageMany(runIds, request) {
      const source = Prisma.sql`SELECT id FROM "Step" WHERE "runId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(runIds)], source, order: 'oldest', request })
      const where = { runId: { in: [...runIds] } }
      const [steps, calls] = await Promise.all([
        db.prisma.step.findMany({ where, orderBy: { index: 'asc' } }),
        db.prisma.toolCall.findMany({ where, orderBy: { id: 'asc' } }),
      ])
      const records = new Map<string, StepRecord>()
      for (const ofRun of Map.groupBy(journaledSteps(steps, calls), ({ step }) => step.runId).values()) {
        for (const record of recordsOf(ofRun)) records.set(record.id, record)
      }
      return runIds.map((runId) => {
        const page = pages.get(runId)
        if (page === undefined) return EMPTY
        return { ...page, items: page.items.flatMap((id) => records.get(id) ?? []) }
      })
    },
  }
}

/** Each step is stored as what it was sent beyond the step before. */
function recordsOf(steps: JournaledStep[]): StepRecord[] {
  let instructions = ''
  let messages: unknown[] = []
  return steps.map(({ step, calls }) => {
    instructions = step.instructions ?? instructions
    messages = [...messages.slice(0, step.messagesKept), ...(step.messagesAdded as unknown[])]
    return {
      ...step,
      instructions,
      messages,
      response: messagesOf([{ step, calls }]),
      finishReason: step.finishReason ?? 'unknown',
      durationMs: step.durationMs ?? 0,
    }
  })
}

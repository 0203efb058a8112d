import type { Step } from '../generated/prisma/client.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'

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
  /** A page of each run's steps, oldest first, in the order of the ids. Two statements, however many runs. */
  pageMany(runIds: readonly string[], request: PageRequest): Promise<Page<StepRecord>[]>
}

const EMPTY: Page<StepRecord> = { items: [], hasNextPage: false, hasPreviousPage: false }

export function createStepRecords({ db }: Platform): StepRecords {
  return {
    async pageMany(runIds, request) {
      const source = Prisma.sql`SELECT id FROM "Step" WHERE "runId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(runIds)], source, order: 'oldest', request })
      const rows = await db.prisma.step.findMany({ where: { runId: { in: [...runIds] } }, orderBy: { index: 'asc' } })
      const records = new Map<string, StepRecord>()
      for (const steps of Map.groupBy(rows, ({ runId }) => runId).values()) {
        for (const record of recordsOf(steps)) records.set(record.id, record)
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
function recordsOf(steps: Step[]): StepRecord[] {
  let instructions = ''
  let messages: unknown[] = []
  return steps.map((step) => {
    instructions = step.instructions ?? instructions
    messages = [...messages.slice(0, step.messagesKept), ...(step.messagesAdded as unknown[])]
    const assistant = step.assistant === null ? [] : [step.assistant]
    return {
      ...step,
      instructions,
      messages,
      response: (step.response as unknown[] | null) ?? assistant,
      finishReason: step.finishReason ?? 'unknown',
      durationMs: step.durationMs ?? 0,
    }
  })
}

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createRecalling } from '../../src/agents/recall.ts'
import { createStepRecords } from '../../src/context/step-records.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'

const FROM_START = { fromEnd: false, after: null, before: null }

describe('the steps of a run, for admins', () => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication()
  })
  afterAll(() => parley?.close())

  test('are read only for the requested page, with whole prompts, and not from the whole journal', async () => {
    const { human, space } = await parley.room()
    parley.models.script(steps(...Array.from({ length: 5 }, () => [{ toolCall: 'read_messages', input: {} }])))
    const { runs } = await parley.send(human, space.id, 'Read five times.')
    const runId = runs[0]?.id ?? ''
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })

    const { platform } = parley.app
    const read: { step: number[]; toolCall: number[] } = { step: [], toolCall: [] }
    const prisma = platform.db.prisma.$extends({
      query: {
        $allModels: {
          async findMany({ model, args, query }) {
            const rows = (await query(args)) as { index?: number; stepIndex?: number }[]
            if (model === 'Step') read.step.push(...rows.map(({ index }) => index ?? -1))
            if (model === 'ToolCall') read.toolCall.push(...rows.map(({ stepIndex }) => stepIndex ?? -1))
            return rows as never
          },
        },
      },
    })
    const records = createStepRecords({ ...platform, db: { ...platform.db, prisma } } as unknown as Platform, {
      recalling: createRecalling(platform),
      models: { takesFile: () => false },
    })
    const [all] = await records.pageMany([runId], { ...FROM_START, size: 100 })
    expect(all?.items).toHaveLength(6)
    read.step = []
    read.toolCall = []
    const [page] = await records.pageMany([runId], { ...FROM_START, size: 2 })
    expect(page).toMatchObject({ hasNextPage: true, items: all?.items.slice(0, 2) })
    expect(read).toEqual({ step: [0, 1], toolCall: [0, 1] })
  })
})

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

const ask = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'EXTERNAL' as const }

describe.each(RULE_STACKS)('a resumed run, on the %s stack', (stack) => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())

  test('publishes a result that was not published before, and the settling process does not publish it again', async () => {
    const { human, space } = await parley.room('Ada', { tools: [ask] })
    const gate = Promise.withResolvers<void>()
    parley.models.script(steps([{ toolCall: 'ask', input: {} }], [{ gate: gate.promise }, { text: 'Thanks.' }]))
    const { runs } = await parley.send(human, space.id, 'Ask')
    const runId = runs[0]?.id ?? ''
    await parley.runWhen(runId, 'WAITING_TOOL')
    const { log, db } = parley.app.platform
    const [call] = await db.prisma.toolCall.findMany({ where: { runId } })
    const goesOn = Promise.withResolvers<void>()
    const { append } = log
    vi.spyOn(log, 'append').mockImplementation(async (topic, event, options) => {
      if (event.type === 'RunToolReturned') {
        vi.mocked(log.append).mockImplementation(append)
        await goesOn.promise
      }
      return append(topic, event, options)
    })
    const result = { toolCallId: call?.id ?? '', result: 'Yes' }
    const settled = parley.app.domain.control.submitToolResult(parley.admin, result)
    const returned = async () => (await parley.eventsOf(runId)).filter((type) => type === 'RunToolReturned')
    await until('the run publishes it', async () => (await returned()).length === 1)
    goesOn.resolve()
    await settled
    expect(await returned()).toHaveLength(1)
    gate.resolve()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', attempt: 2 })
  })
})

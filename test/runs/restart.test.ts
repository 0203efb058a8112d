import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'

const ASK = {
  name: 'ask',
  description: 'Asks the members.',
  inputSchema: { type: 'object', properties: { question: { type: 'string' } } },
  execution: 'SPACE' as const,
}
const QUESTIONS = ['A', 'B', 'C', 'D', 'E']

function shuffled<T>(items: T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

test.skipIf(!hasPostgres)(
  '5 parallel waiting calls survive a restart of every process, and each gets its own result, in random order from two people',
  async () => {
    const stores = await startApplication({ stack: 'postgres', worker: false })
    const before = await startApplication({ stack: 'postgres', beside: stores })
    const husam = await stores.human('Husam')
    const ahmad = await stores.human('Ahmad')
    const agent = await stores.agent('Asker', { tools: [ASK] })
    const space = await stores.space(husam, [agent.id])
    await stores.app.domain.members.add(stores.admin, { spaceId: space.id, entityId: ahmad.id })
    stores.models.script(
      steps(
        QUESTIONS.map((question) => ({ toolCall: 'ask', input: { question } })),
        [{ text: 'Thanks.' }],
      ),
    )
    const { runs } = await before.send(husam, space.id, 'Ask us')
    const runId = runs[0]?.id ?? ''
    await before.runWhen(runId, 'WAITING_TOOL')
    await before.close()

    const after = await startApplication({ stack: 'postgres', beside: stores })
    const calls = (await after.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    expect(calls.map(({ status }) => status)).toEqual(QUESTIONS.map(() => 'WAITING'))
    for (const [index, call] of shuffled(calls).entries()) {
      const { question } = call.input as { question: string }
      const result = `answer to ${question}`
      await after.app.domain.control.submitToolResult(index % 2 === 0 ? husam : ahmad, { toolCallId: call.id, result })
    }
    expect(await after.runWhen(runId)).toMatchObject({ status: 'COMPLETED', summary: 'Thanks.', stepCount: 2 })
    const { messages } = await stores.models.request(({ step }) => step === 1)
    const results = messages.filter(({ role }) => role === 'tool').map(({ text }) => text)
    expect(results).toEqual(QUESTIONS.map((question) => `answer to ${question}`))
    expect(stores.models.refusals).toEqual([])
    await after.close()
    await stores.close()
  },
)

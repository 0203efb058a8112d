import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type ModelRequest, steps } from '../support/model-server-script.ts'
import { inboxIn, type Thinking, thinkingOn } from '../support/thinking.ts'
import { enter } from '../support/turns.ts'
import { until } from '../support/until.ts'

describe('a result that arrives after its wait has ended', () => {
  let parley: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication()
    thinking = thinkingOn(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  /** Creates an agent that requests approval in its space. Nobody responds within the one second that the tool waits. */
  async function unanswered(mind: 'STATELESS' | 'PERSISTENT') {
    const human = await parley.human('Husam')
    const approve = {
      name: 'approve',
      description: 'Asks.',
      inputSchema: { type: 'object' },
      timeoutMs: 1000,
      execution: 'SPACE' as const,
    }
    const agent = await parley.agent('Ada', { mind, tools: [approve] })
    const space = await parley.space(human, [agent.id])
    const asks = steps([enter(space)], [{ toolCall: 'approve', input: {} }])
    parley.models.script((request) => (inboxIn(request).includes('TOOL_RESULT') ? [{ text: 'Noted.' }] : asks(request)))
    await parley.send(human, space.id, 'Deploy?')
    const call = await until('the wait has timed out', () =>
      parley.app.platform.db.prisma.toolCall.findFirst({ where: { agentId: agent.id, status: 'TIMED_OUT' } }),
    )
    await thinking.rest(agent)
    const submit = () =>
      parley.app.domain.control.submitToolResult(human, { toolCallId: call.id, result: { approved: true } })
    return { agent, space, call, submit }
  }

  test('is refused, and still reaches the inbox of a persistent agent, once', async () => {
    const { agent, space, call, submit } = await unanswered('PERSISTENT')
    const late = { code: 'CONFLICT', message: expect.stringContaining('put into the inbox of the agent') }
    await expect(submit()).rejects.toMatchObject(late)
    await thinking.rest(agent)
    await expect(submit()).rejects.toMatchObject({ code: 'CONFLICT' })
    await thinking.rest(agent)
    const told = parley.models.requests
      .filter(({ step }) => step === 0)
      .map((request: ModelRequest) => inboxIn(request).split('\n')[1])
    expect(told).toEqual([
      expect.stringContaining('"Deploy?"'),
      expect.stringMatching(`^- \\[TOOL_RESULT approve \\(id: ${call.id}\\)\\] {"error":{"code":"TIMED_OUT"`),
      `- [TOOL_RESULT approve (id: ${call.id})] {"approved":true}`,
    ])
    const [, shown] = await parley.messages(space.id)
    expect(shown).toMatchObject({ status: 'COMPLETE', parts: [{ type: 'tool', toolCallId: call.id }] })
    const { status } = await parley.app.platform.db.prisma.toolCall.findUniqueOrThrow({ where: { id: call.id } })
    expect(status).toBe('TIMED_OUT')
  })

  test('is refused by a stateless run, which has continued without it', async () => {
    const { agent, submit } = await unanswered('STATELESS')
    await expect(submit()).rejects.toMatchObject({ code: 'CONFLICT', message: expect.not.stringContaining('inbox') })
    expect(await thinking.inboxOf(agent)).toEqual([])
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, steps } from '../../support/model-server-script.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { callsOf, endedRun, messagesOf, runsOf, spaceToolsRoom, textsOf } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

const STACKS = (['embedded', 'postgres'] as const).filter((stack) => stack === 'embedded' || hasPostgres)

describe.each(STACKS)('sendSpaceMessage, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const room = (...names: string[]) => spaceToolsRoom(parley, { names })

  test('without wait returns { messageId, sent } at once, and the message stands in the space', async () => {
    const { human, agents, space } = await room('Ada')
    parley.models.script(
      steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: "Hello! Here's your report." } }]),
    )
    const { runs } = await parley.send(human, space.id, 'Report, please')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', agentId: agents[0]?.id })
    const [message] = await messagesOf(parley, space.id, agents[0]?.id ?? '')
    expect(message).toMatchObject({ status: 'COMPLETE', runId: run.id, mentionedAgentId: null })
    expect(textsOf(message)).toEqual(["Hello! Here's your report."])
    const [call] = await callsOf(parley, run.id)
    expect(call?.output).toEqual({ messageId: message?.id, sent: true })
    expect(call?.input).toEqual({ spaceId: space.id, text: "Hello! Here's your report." })
    expect(parley.models.refusals).toEqual([])
  })

  test('with wait returns the reply as it is in the seed', async () => {
    const { human, agents, space } = await room('Ada', 'Finance Agent')
    const [ada, finance] = agents
    parley.models.script(
      forAgent(
        'Ada',
        steps([
          {
            toolCall: 'sendSpaceMessage',
            input: {
              spaceId: space.id,
              text: "What's the Q4 budget status?",
              mention: finance?.id,
              wait: { for: [{ type: 'agent' }], timeout: 60 },
            },
          },
        ]),
      ),
    )
    parley.models.script(
      forAgent(
        'Finance Agent',
        steps([
          { toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Q4 budget: $2.1M allocated...' } },
        ]),
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Budget?')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const [question] = await messagesOf(parley, space.id, ada?.id ?? '')
    const [call] = await callsOf(parley, run.id)
    expect(call?.output).toEqual({
      messageId: question?.id,
      sent: true,
      timedOut: false,
      reply: {
        text: 'Q4 budget: $2.1M allocated...',
        entityId: finance?.id,
        entityName: 'Finance Agent',
        entityType: 'agent',
      },
    })
    expect(question).toMatchObject({ status: 'COMPLETE', mentionedAgentId: finance?.id })
  })

  test('on timeout returns { timedOut: true, reply: null }', async () => {
    const { human, agents, space } = await room('Ada')
    parley.models.script(
      steps([
        {
          toolCall: 'sendSpaceMessage',
          input: { spaceId: space.id, text: 'Anybody?', wait: { for: [{ type: 'any' }], timeout: 0.2 } },
        },
      ]),
    )
    const { runs } = await parley.send(human, space.id, 'Ask')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const [question] = await messagesOf(parley, space.id, agents[0]?.id ?? '')
    const [call] = await callsOf(parley, run.id)
    expect(call?.output).toEqual({ messageId: question?.id, sent: true, timedOut: true, reply: null })
  })

  describe('mention and wait are independent', () => {
    test.each([
      ['neither: posted, nobody is triggered, nothing waits', false, false],
      ['mention: the agent is triggered, nothing waits', true, false],
      ['wait: nobody is triggered, it waits for whoever answers', false, true],
      ['both: the agent is triggered, and its answer is waited for', true, true],
    ])('%s', async (_, mentions, waits) => {
      const { human, agents, space } = await room('Ada', 'Bea')
      const [ada, bea] = agents
      const mention = mentions ? { mention: bea?.id } : {}
      const wait = waits ? { wait: { for: [{ type: mentions ? 'agent' : 'human' }], timeout: 30 } } : {}
      const say = (text: string, more = {}) => ({
        toolCall: 'sendSpaceMessage',
        input: { spaceId: space.id, text, ...more },
      })
      parley.models.script(forAgent('Ada', steps([say('Ready?', { ...mention, ...wait })], [{ text: 'Noted.' }])))
      parley.models.script(forAgent('Bea', steps([say('Ready.')])))
      const { runs } = await parley.send(human, space.id, 'Begin')
      if (waits && !mentions) {
        await until('the question stands', async () => (await messagesOf(parley, space.id, ada?.id ?? ''))[0]?.routedAt)
        expect(await parley.run(runs[0]?.id ?? '')).toMatchObject({ status: 'RUNNING' })
        parley.models.script(forAgent('Ada', () => [{ text: 'Done.' }]))
        await parley.send(human, space.id, 'Yes.')
      }
      const run = await parley.runWhen(runs[0]?.id ?? '')
      const [call] = await callsOf(parley, run.id)
      const [question] = await messagesOf(parley, space.id, ada?.id ?? '')
      const answer = mentions
        ? { text: 'Ready.', entityId: bea?.id, entityName: 'Bea', entityType: 'agent' }
        : { text: 'Yes.', entityId: human.id, entityName: 'Husam', entityType: 'human' }
      expect(call?.output).toEqual({
        messageId: question?.id,
        sent: true,
        ...(waits ? { timedOut: false, reply: answer } : {}),
      })
      if (mentions) {
        expect(await endedRun(parley, bea?.id ?? '')).toMatchObject({
          status: 'COMPLETED',
          triggerMessageId: question?.id,
          parentRunId: run.id,
          depth: 1,
        })
      }
      expect(await runsOf(parley, bea?.id ?? '')).toHaveLength(mentions ? 1 : 0)
    })
  })
})

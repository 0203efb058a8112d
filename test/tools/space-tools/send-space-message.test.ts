import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, steps } from '../../support/model-server-script.ts'
import { callsOf, endedRun, messagesOf, runsOf, spaceToolsRoom, textsOf } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

describe.each(RULE_STACKS)('sendSpaceMessage, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const room = (...names: string[]) => spaceToolsRoom(parley, { names })

  test('a call without wait returns { messageId, sent } at once, and posts the message in the space', async () => {
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

  test('a call with wait returns the reply in the format of the seed', async () => {
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
        steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Q4 budget: $2.1M allocated...' } }]),
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

  test('a call that times out returns { timedOut: true, reply: null }', async () => {
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
    /** Ada posts with these options. Returns her result, her message, and Bea's runs. */
    async function play(options: (ids: { bea: string }) => object, whileWaiting?: (room: Room) => Promise<unknown>) {
      const { human, agents, space } = await room('Ada', 'Bea')
      const [ada = NOBODY, bea = NOBODY] = agents
      const say = (text: string, more = {}) => ({
        toolCall: 'sendSpaceMessage',
        input: { spaceId: space.id, text, ...more },
      })
      parley.models.script(forAgent('Ada', steps([say('Ready?', options({ bea: bea.id }))], [{ text: 'Noted.' }])))
      parley.models.script(forAgent('Bea', steps([say('Ready.')])))
      const { runs } = await parley.send(human, space.id, 'Begin')
      const runId = runs[0]?.id ?? ''
      if (whileWaiting !== undefined) {
        await until('the question is posted', async () => (await messagesOf(parley, space.id, ada.id))[0]?.routedAt)
        expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING' })
        parley.models.script(forAgent('Ada', () => [{ text: 'Done.' }]))
        await whileWaiting({ human, agents, space })
      }
      await parley.runWhen(runId)
      const [question] = await messagesOf(parley, space.id, ada.id)
      const [call] = await callsOf(parley, runId)
      return { runId, human, bea, question, result: call?.output }
    }

    test('neither: posted, no agent is triggered, nothing waits', async () => {
      const { bea, question, result } = await play(() => ({}))
      expect(result).toEqual({ messageId: question?.id, sent: true })
      expect(await runsOf(parley, bea.id)).toEqual([])
    })

    test('mention: the agent is triggered, nothing waits', async () => {
      const { bea, question, result, runId } = await play((ids) => ({ mention: ids.bea }))
      expect(result).toEqual({ messageId: question?.id, sent: true })
      expect(await endedRun(parley, bea.id)).toMatchObject({
        status: 'COMPLETED',
        triggerMessageId: question?.id,
        triggerPayload: { type: 'space_message', senderType: 'agent', mentionReason: 'Ready?' },
        parentRunId: runId,
        depth: 1,
      })
    })

    test('wait: no agent is triggered, and the run waits for any reply', async () => {
      const wait = { for: [{ type: 'human' }], timeout: 30 }
      const { bea, human, question, result } = await play(
        () => ({ wait }),
        (there) => parley.send(there.human, there.space.id, 'Yes.'),
      )
      expect(result).toEqual({
        messageId: question?.id,
        sent: true,
        timedOut: false,
        reply: { text: 'Yes.', entityId: human.id, entityName: 'Husam', entityType: 'human' },
      })
      expect(await runsOf(parley, bea.id)).toEqual([])
    })

    test('both: the agent is triggered, and the run waits for its reply', async () => {
      const wait = { for: [{ type: 'agent' }], timeout: 30 }
      const { bea, question, result } = await play((ids) => ({ mention: ids.bea, wait }))
      expect(result).toEqual({
        messageId: question?.id,
        sent: true,
        timedOut: false,
        reply: { text: 'Ready.', entityId: bea.id, entityName: 'Bea', entityType: 'agent' },
      })
      expect(await endedRun(parley, bea.id)).toMatchObject({ triggerMessageId: question?.id })
    })
  })

  test('the mentioned agent reads the reason in its prompt: the first 200 characters of the message', async () => {
    const { human, agents, space } = await room('Ada', 'Bea')
    const text = 'x'.repeat(300)
    const input = { spaceId: space.id, text, mention: agents[1]?.id }
    parley.models.script(forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input }])))
    parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
    await parley.send(human, space.id, 'Begin')
    await endedRun(parley, agents[1]?.id ?? '')
    const request = await parley.models.request(({ instructions }) => instructions.includes('You are Bea'))
    const [first = '', second = ''] = (request.messages.find(({ role }) => role === 'user')?.text ?? '').split('\n')
    expect(first).toBe(`TRIGGER: a message from Ada (agent) in "Project Alpha" (id: ${space.id}), which mentions you:`)
    expect(JSON.parse(second)).toEqual({ type: 'space_message', senderType: 'agent', mentionReason: 'x'.repeat(200) })
  })
})

type Room = Awaited<ReturnType<typeof spaceToolsRoom>>

const NOBODY = { id: '', name: '' }

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../../src/access/viewer.ts'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, steps } from '../../support/model-server-script.ts'
import { hasPostgres } from '../../support/postgres.ts'
import {
  callsOf,
  endedRun,
  gate,
  messagesOf,
  runsOf,
  sayIn,
  spaceToolsRoom,
  textsOf,
} from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

interface WaitState {
  wait: { messageId: string; afterSeq: number }
}

/** Waits until the run's first call waits for a reply. Returns its stored wait. */
async function waiting(parley: TestApplication, runId: string): Promise<WaitState['wait']> {
  return until(`${runId} waits for a reply`, async () => {
    const [call] = await callsOf(parley, runId)
    return (call?.state as WaitState | null)?.wait
  })
}

describe.skipIf(!hasPostgres)('waiting for a reply', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Creates a room in which Ada has asked a question and waits. */
  async function asked(wait: object, names = ['Ada', 'Bea', 'Cem']) {
    const room = await spaceToolsRoom(parley, { names })
    parley.models.script(forAgent('Ada', steps([sayIn(room.space.id, 'Who knows?', { wait })])))
    const { runs } = await parley.send(room.human, room.space.id, 'Ask')
    const runId = runs[0]?.id ?? ''
    const state = await waiting(parley, runId)
    parley.models.script(forAgent('Ada', ({ step }) => (step === 0 ? [{ text: 'Fine.' }] : undefined)))
    return { ...room, runId, state }
  }

  const resultOf = async (runId: string) => (await callsOf(parley, runId))[0]?.output as { reply: object | null }

  /** Posts a message by an agent, in a run that a service triggers. */
  async function agentSays(agent: { id: string; name: string } | undefined, spaceId: string, text: string) {
    parley.models.script(forAgent(agent?.name ?? '', steps([sayIn(spaceId, text)])))
    const before = (await runsOf(parley, agent?.id ?? '')).length
    await parley.app.domain.control.triggerAgent(parley.admin, {
      agentId: agent?.id ?? '',
      serviceName: 'test',
      payload: {},
    })
    await endedRun(parley, agent?.id ?? '', before)
  }

  async function joined(spaceId: string, name: string): Promise<HumanViewer> {
    const human = await parley.human(name)
    await parley.app.domain.members.add(parley.admin, { spaceId, entityId: human.id })
    return human
  }

  describe('the conditions', () => {
    test("'any' is met by the first reply", async () => {
      const { agents, space, runId } = await asked({ for: [{ type: 'any' }] })
      await agentSays(agents[1], space.id, 'I do.')
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({
        reply: { text: 'I do.', entityId: agents[1]?.id, entityType: 'agent' },
      })
    })

    test("'agent' is met by an agent and not by a human", async () => {
      const { agents, space, human, runId } = await asked({ for: [{ type: 'agent' }] })
      await parley.send(human, space.id, 'Not me.')
      await agentSays(agents[1], space.id, 'Me.')
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({ reply: { text: 'Me.', entityName: 'Bea' } })
    })

    test("'human' is met by a human and not by an agent", async () => {
      const { agents, space, human, runId } = await asked({ for: [{ type: 'human' }], timeout: 120 })
      await agentSays(agents[1], space.id, 'Not me.')
      await parley.send(human, space.id, 'Approved.')
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({
        reply: { text: 'Approved.', entityId: human.id, entityName: 'Husam', entityType: 'human' },
      })
    })

    test("'entity' is met by that one only", async () => {
      const { space, human, runId, state } = await (async () => {
        const room = await spaceToolsRoom(parley)
        const ahmad = await joined(room.space.id, 'Ahmad')
        const wait = { for: [{ type: 'entity', entityId: ahmad.id }], timeout: 90 }
        parley.models.script(forAgent('Ada', steps([sayIn(room.space.id, 'Ahmad, can you confirm?', { wait })])))
        const { runs } = await parley.send(room.human, room.space.id, 'Ask')
        const state = await waiting(parley, runs[0]?.id ?? '')
        parley.models.script(forAgent('Ada', ({ step }) => (step === 0 ? [{ text: 'Fine.' }] : undefined)))
        await parley.send(room.human, room.space.id, 'He is out.')
        await parley.send(ahmad, room.space.id, 'Confirmed.')
        return { ...room, runId: runs[0]?.id ?? '', state }
      })()
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({
        messageId: state.messageId,
        reply: { text: 'Confirmed.', entityName: 'Ahmad' },
      })
      expect(await parley.messages(space.id)).toHaveLength(4)
      expect(human.id).not.toBe('')
    })

    test('two agents: the first reply counts', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Finance', 'HR'] })
      const { agents, space, human } = room
      const wait = { for: agents.slice(1).map(({ id }) => ({ type: 'entity', entityId: id })), timeout: 60 }
      parley.models.script(forAgent('Ada', steps([sayIn(space.id, 'Finance or HR?', { wait })])))
      const { runs } = await parley.send(human, space.id, 'Ask')
      await waiting(parley, runs[0]?.id ?? '')
      await agentSays(agents[2], space.id, 'HR has them.')
      await agentSays(agents[1], space.id, 'Finance too.')
      await parley.runWhen(runs[0]?.id ?? '')
      expect(await resultOf(runs[0]?.id ?? '')).toMatchObject({ reply: { text: 'HR has them.', entityName: 'HR' } })
    })

    test('an agent or a human: the first reply counts', async () => {
      const { space, human, runId } = await asked({ for: [{ type: 'agent' }, { type: 'human' }], timeout: 120 })
      await parley.send(human, space.id, 'It is approved.')
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({ timedOut: false, reply: { text: 'It is approved.' } })
    })
  })

  describe('a reply', () => {
    test('is not an earlier message, nor one of its own agent', async () => {
      const { agents, space, human, runId } = await asked({ for: [{ type: 'any' }] })
      await agentSays(agents[0], space.id, 'I ask myself.')
      expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING' })
      await parley.send(human, space.id, 'I know.')
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({ reply: { text: 'I know.' } })
    })

    test('a reply to a later part of a message is newer than that part', async () => {
      const { space, human } = await spaceToolsRoom(parley)
      const hold = gate()
      const second = sayIn(space.id, 'Now?', { wait: { for: [{ type: 'human' }] } })
      parley.models.script(forAgent('Ada', steps([sayIn(space.id, 'Soon.')], [{ gate: hold.promise }, second])))
      const { runs } = await parley.send(human, space.id, 'Ask')
      await parley.models.request(({ step }) => step === 1)
      const answers = forAgent('Ada', ({ messages }) =>
        messages.some(({ text }) => text.includes('Too early') && !text.includes('Soon.'))
          ? [{ text: 'Fine.' }]
          : undefined,
      )
      parley.models.script(answers)
      await parley.send(human, space.id, 'Too early.')
      hold.open()
      await until('it waits', async () =>
        (await callsOf(parley, runs[0]?.id ?? '')).some(({ state }) => (state as unknown as WaitState | null)?.wait),
      )
      await parley.send(human, space.id, 'In time.')
      await parley.runWhen(runs[0]?.id ?? '')
      const calls = await callsOf(parley, runs[0]?.id ?? '')
      expect(calls[1]?.output).toMatchObject({ timedOut: false, reply: { text: 'In time.' } })
    })

    test('a streaming reply counts once it is complete', async () => {
      const { space, runId } = await asked({ for: [{ type: 'agent' }] }, ['Ada'])
      const bea = await parley.agent('Bea', { toolset: 'ACTIVE_SPACE' })
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bea.id })
      const hold = gate()
      const chunks = ['{"text":"It is ', hold.promise, '42."}']
      parley.models.script(
        forAgent(
          'Bea',
          steps(
            [{ toolCall: 'enter_space', input: { spaceId: space.id } }],
            [{ toolCall: 'send_message', input: '', chunks }],
          ),
        ),
      )
      await parley.app.domain.control.triggerAgent(parley.admin, { agentId: bea.id, serviceName: 'test', payload: {} })
      await until(
        'the text streams',
        async () => (await messagesOf(parley, space.id, bea.id))[0]?.status === 'STREAMING',
      )
      expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING' })
      hold.open()
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({ reply: { text: 'It is 42.' } })
    })

    test('can be a complete text part of an unfinished message', async () => {
      const { agents, space, runId } = await asked({ for: [{ type: 'agent' }] })
      const hold = gate()
      parley.models.script(
        forAgent(
          'Bea',
          steps([sayIn(space.id, 'First half.')], [{ gate: hold.promise }, sayIn(space.id, 'Second half.')]),
        ),
      )
      await parley.app.domain.control.triggerAgent(parley.admin, {
        agentId: agents[1]?.id ?? '',
        serviceName: 'test',
        payload: {},
      })
      await parley.runWhen(runId)
      expect(await resultOf(runId)).toMatchObject({ reply: { text: 'First half.' } })
      expect((await messagesOf(parley, space.id, agents[1]?.id ?? ''))[0]).toMatchObject({ status: 'STREAMING' })
      hold.open()
      await endedRun(parley, agents[1]?.id ?? '')
    })

    test('can be a later part of a message that began before, without its earlier parts', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const [ada, bea] = agents
      const hold = gate()
      parley.models.script(
        forAgent(
          'Bea',
          steps([sayIn(space.id, "I'm checking.")], [{ gate: hold.promise }, sayIn(space.id, 'It is 42.')]),
        ),
      )
      await parley.app.domain.control.triggerAgent(parley.admin, {
        agentId: bea?.id ?? '',
        serviceName: 'test',
        payload: {},
      })
      const begun = await until('the first part exists', async () =>
        (await messagesOf(parley, space.id, bea?.id ?? '')).find((message) =>
          textsOf(message).includes("I'm checking."),
        ),
      )
      parley.models.script(
        forAgent('Ada', steps([sayIn(space.id, 'How far?', { wait: { for: [{ type: 'agent' }] } })])),
      )
      const { runs } = await parley.send(human, space.id, 'Ask Bea')
      await waiting(parley, runs[0]?.id ?? '')
      expect(await parley.run(runs[0]?.id ?? '')).toMatchObject({ status: 'RUNNING', agentId: ada?.id })
      hold.open()
      await parley.runWhen(runs[0]?.id ?? '')
      expect(await resultOf(runs[0]?.id ?? '')).toMatchObject({
        timedOut: false,
        reply: { text: 'It is 42.', entityName: 'Bea' },
      })
      await endedRun(parley, bea?.id ?? '')
      const [said, asked] = (await parley.messages(space.id)).filter(({ senderId }) => senderId !== human.id)
      expect([said?.id, asked?.senderId]).toEqual([begun.id, ada?.id])
    })
  })

  describe('how long', () => {
    test.each([
      [undefined, 60],
      [90, 90],
      [120, 120],
      [121, 120],
      [86_400, 120],
    ])('a timeout of %s means %s s', async (timeout, seconds) => {
      const { human, space, runId } = await asked({ for: [{ type: 'human' }], ...(timeout ? { timeout } : {}) }, [
        'Ada',
      ])
      const [call] = await callsOf(parley, runId)
      const left = (call?.expiresAt?.getTime() ?? 0) - Date.now()
      expect(left).toBeLessThanOrEqual(seconds * 1000)
      expect(left).toBeGreaterThan(seconds * 1000 - 20_000)
      await parley.send(human, space.id, 'Enough.')
      await parley.runWhen(runId)
    })

    test('stopping the run ends its wait', async () => {
      const { human, runId } = await asked({ for: [{ type: 'human' }] }, ['Ada'])
      await parley.app.domain.control.stopRun(human, { runId, cascade: false })
      expect(await parley.run(runId)).toMatchObject({ status: 'CANCELED' })
      expect(await callsOf(parley, runId)).toMatchObject([{ status: 'CANCELED', output: null }])
      expect((await parley.eventsOf(runId)).at(-1)).toBe('RunCanceled')
    })
  })

  describe('and routing', () => {
    test('a reply to a wait wakes the agents of the routing, except the waiting one', async () => {
      const { human, space, runId } = await asked({ for: [{ type: 'human' }] }, ['Ada'])
      const { runs } = await parley.send(human, space.id, 'Yes.')
      expect(runs).toEqual([])
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    })

    test('two agents that mention and wait for each other end by their time limits, and a new run sees the circle', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const [ada, bea] = agents
      const back = await parley.space(human, [ada?.id ?? '', bea?.id ?? ''], {
        routing: 'ADMIN',
        adminAgentId: bea?.id ?? '',
      })
      const ask = (spaceId: string, mention: string | undefined) =>
        sayIn(spaceId, 'You?', { mention, wait: { for: [{ type: 'entity', entityId: mention }], timeout: 4 } })
      parley.models.script(forAgent('Bea', steps([ask(back.id, ada?.id)])))
      parley.models.script(
        forAgent('Ada', ({ messages, step }) => {
          const isMentioned = messages.some(({ text }) => text.includes('which mentions you'))
          if (step > 0) return [{ text: 'Over.' }]
          return isMentioned ? [{ toolCall: 'getMyRuns' }] : [ask(space.id, bea?.id)]
        }),
      )
      const { runs } = await parley.send(human, space.id, 'Begin')
      const detecting = await endedRun(parley, ada?.id ?? '', 1)
      const [look] = await callsOf(parley, detecting.id)
      expect(look?.output).toMatchObject({
        currentRunId: detecting.id,
        otherActiveRuns: [{ runId: runs[0]?.id, progress: { toolsCalled: ['sendSpaceMessage (waiting for reply)'] } }],
      })
      for (const id of [runs[0]?.id ?? '', (await runsOf(parley, bea?.id ?? ''))[0]?.id ?? '']) {
        expect(await parley.runWhen(id)).toMatchObject({ status: 'COMPLETED' })
        expect(await resultOf(id)).toMatchObject({ timedOut: true, reply: null })
      }
    })
  })
})

describe.skipIf(!hasPostgres)('waiting, with one concurrent run in each process', () => {
  test('a waiting run releases its place, so that the run that it waits for can start', async () => {
    const parley = await startApplication({ stack: 'postgres', settings: { PARLEY_WORKER_CONCURRENCY: '1' } })
    try {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea', 'Cem'] })
      const ask = (mention: string | undefined) =>
        sayIn(space.id, 'And you?', { mention, wait: { for: [{ type: 'entity', entityId: mention }] } })
      parley.models.script(forAgent('Ada', steps([ask(agents[1]?.id)])))
      parley.models.script(forAgent('Bea', steps([ask(agents[2]?.id)], [sayIn(space.id, 'Bea agrees')])))
      parley.models.script(forAgent('Cem', steps([sayIn(space.id, 'Cem agrees')])))
      const { runs } = await parley.send(human, space.id, 'Ask around')
      expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
      const [call] = await callsOf(parley, runs[0]?.id ?? '')
      // Bea's own question is her first text after Ada's.
      expect(call?.output).toMatchObject({ timedOut: false, reply: { text: 'And you?', entityName: 'Bea' } })
      const bea = await endedRun(parley, agents[1]?.id ?? '')
      expect((await callsOf(parley, bea.id))[0]?.output).toMatchObject({ reply: { text: 'Cem agrees' } })
    } finally {
      await parley.close()
    }
  })
})

describe.skipIf(!hasPostgres)('waiting, over several processes', () => {
  let one: TestApplication

  beforeAll(async () => {
    one = await startApplication({ stack: 'postgres', worker: false })
  })
  afterAll(() => one?.close())
  beforeEach(() => one.models.reset())

  async function ask(timeout: number) {
    const room = await spaceToolsRoom(one)
    one.models.script(
      forAgent('Ada', ({ step, messages }) => {
        if (step > 0) return [{ text: 'Over.' }]
        return messages.some(({ text }) => text.includes('Ask')) &&
          !messages.some(({ text }) => text.includes('Forty-two'))
          ? [sayIn(room.space.id, 'Well?', { wait: { for: [{ type: 'human' }], timeout } })]
          : [{ text: 'Fine.' }]
      }),
    )
    const { runs } = await one.send(room.human, room.space.id, 'Ask')
    return { ...room, runId: runs[0]?.id ?? '' }
  }

  test('the reply may be posted in any of the spaces', async () => {
    const two = await startApplication({ stack: 'postgres', beside: one })
    try {
      const { human, space, runId } = await ask(60)
      await waiting(one, runId)
      await one.send(human, space.id, 'Forty-two.')
      await one.runWhen(runId)
      expect((await callsOf(one, runId))[0]?.output).toMatchObject({ timedOut: false, reply: { text: 'Forty-two.' } })
    } finally {
      await two.close()
    }
  })

  test('the wait of a run whose worker dies continues on another worker, which finds a reply posted in between', async () => {
    const two = await startApplication({ stack: 'postgres', beside: one })
    const { human, space, agents, runId } = await ask(60)
    const state = await waiting(one, runId)
    await two.app.close(0)
    expect(await one.run(runId)).toMatchObject({ status: 'RUNNING' })
    await one.send(human, space.id, 'Forty-two.')
    const three = await startApplication({ stack: 'postgres', beside: one })
    try {
      expect(await one.runWhen(runId)).toMatchObject({ status: 'COMPLETED', attempt: 2 })
      const calls = await callsOf(one, runId)
      expect(calls).toHaveLength(1)
      expect(calls[0]).toMatchObject({
        output: { messageId: state.messageId, sent: true, timedOut: false, reply: { text: 'Forty-two.' } },
      })
      expect(await messagesOf(one, space.id, agents[0]?.id ?? '')).toHaveLength(1)
    } finally {
      await three.close()
    }
  })

  test('the wait of a run whose worker dies keeps its deadline by the database’s clock, not by the next worker’s', async () => {
    const two = await startApplication({ stack: 'postgres', beside: one })
    const { runId } = await ask(1)
    const { messageId } = await waiting(one, runId)
    await two.app.close(0)
    const clock = { now: () => Date.now() - 3_600_000 }
    const three = await startApplication({ stack: 'postgres', beside: one, clock })
    try {
      const run = await one.runWhen(runId)
      expect(run).toMatchObject({ status: 'COMPLETED' })
      const [call] = await callsOf(one, runId)
      expect(call?.output).toEqual({ messageId, sent: true, timedOut: true, reply: null })
      expect(call?.settledAt?.getTime()).toBeGreaterThanOrEqual(call?.expiresAt?.getTime() ?? Number.NaN)
    } finally {
      await three.close()
    }
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { openChainRoom } from '../support/chain-room.ts'
import { delegates, enter, mentions, say, skips } from '../support/turns.ts'

describe.each(RULE_STACKS)('a chain on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Returns the last prompt of an agent's n-th run. */
  async function wokenWith(name: string, n: number): Promise<string> {
    const first = parley.models.requests.filter(
      ({ instructions, step }) => step === 0 && instructions.startsWith(`You are ${name},`),
    )
    return first[n - 1]?.messages.at(-1)?.text ?? ''
  }

  describe('follows the rows of the rules table', () => {
    test('a human message: one agent runs, and the next message goes to the next', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('I am Ada.')]])
      room.plays('Bob', [[say('I am Bob.')]])
      await room.hears('One')
      await room.hears('Two')
      expect(await room.conversation()).toEqual(['Husam: One', 'Ada: I am Ada.', 'Husam: Two', 'Bob: I am Bob.'])
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED'])
    })

    test('a human message that mentions an agent: the mentioned agent runs', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Bob', [[say('Yes?')]])
      await room.hears('Bob!', room.agents.Bob.id)
      expect(await room.story()).toEqual(['Bob COMPLETED'])
    })

    test('responds with a mention, no reply expected: the mentioned agent runs, and the caller is not called back', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob knows.'), mentions(room.agents.Bob, 'you know')]])
      room.plays('Bob', [[say('I do.')]])
      await room.hears()
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED'])
      const [, asked] = await room.messages()
      expect(asked?.mentionedAgentId).toBe(room.agents.Bob.id)
      expect(await room.outcomes(asked?.id ?? '')).toEqual(['Bob RUN'])
      const [, second] = await room.runs()
      expect(second).toMatchObject({ triggerMessageId: asked?.id, triggerSenderId: room.agents.Ada.id, depth: 1 })
    })

    test('responds with a mention, a reply expected: the caller runs again, triggered by the reply', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'your figures', true)]], [[say('Thanks.')]])
      room.plays('Bob', [[say('42.')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Bob: 42.', 'Ada: Thanks.'])
      const [, , called] = await room.runs()
      const [chain] = await room.chains()
      const [, , reply] = await room.messages()
      expect(called).toMatchObject({ triggerMessageId: reply?.id, dedupKey: `chain:${chain?.id}:3`, depth: 2 })
      expect(await room.outcomes(reply?.id ?? '')).toEqual(['Ada RUN'])
      const prompt = await wokenWith(room.agents.Ada.name, 2)
      expect(prompt).toContain(
        `You are called back. You had asked: "your figures". ${room.agents.Bob.name} has responded`,
      )
      expect(prompt).toContain('"text":"42."')
    })

    test('responds without a mention while several agents wait: they are called back one after the other', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
      room.plays('Ada', [[say('1'), mentions(room.agents.Bob, 'b', true)]], [[say('5')]])
      room.plays('Bob', [[say('2'), mentions(room.agents.Cyd, 'c', true)]], [[say('4')]])
      room.plays('Cyd', [[say('3')]])
      await room.hears('0')
      expect(await room.conversation()).toEqual(['Husam: 0', 'Ada: 1', 'Bob: 2', 'Cyd: 3', 'Bob: 4', 'Ada: 5'])
      expect(await room.chains()).toMatchObject([{ depth: 5, replyStack: [], holderId: null, holderRunId: null }])
    })

    test('responds without a mention and no agent waits: the chain stops', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Hello.')]])
      await room.hears()
      expect(await room.story()).toEqual(['Ada COMPLETED'])
      expect(await room.chains()).toMatchObject([{ depth: 1, holderId: null }])
    })

    test('delegates: its run is CANCELED, it posts nothing, the target gets the same message and the reason', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[delegates(room.agents.Bob, 'it is about money')]])
      room.plays('Bob', [[say('Money, then.')]])
      const { message } = await room.says('About money')
      await room.chainsEnd()
      expect(await room.conversation()).toEqual(['Husam: About money', 'Bob: Money, then.'])
      expect(await room.story()).toEqual(['Ada CANCELED', 'Bob COMPLETED'])
      expect(await room.outcomes(message.id)).toEqual(['Ada NOT_ROUTED', 'Bob RUN'])
      const [first, second] = await room.runs()
      for (const field of [
        'triggerMessageId',
        'triggerSpaceId',
        'triggerSenderId',
        'triggerType',
        'rootId',
        'depth',
        'chainId',
      ] as const) {
        expect(second?.[field]).toEqual(first?.[field])
      }
      expect(await wokenWith(room.agents.Bob.name, 1)).toContain(
        `Delegated to you by ${room.agents.Ada.name}: "it is about money"`,
      )
    })

    test('delegates while an agent waits for it: that agent now waits for the target', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Thanks, Cyd.')]])
      room.plays('Bob', [[delegates(room.agents.Cyd)]])
      room.plays('Cyd', [[say('Here.')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Cyd: Here.', 'Ada: Thanks, Cyd.'])
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob CANCELED', 'Cyd COMPLETED', 'Ada COMPLETED'])
    })

    test('skips while an agent waits: that agent runs again, without a message, and its prompt reports the skip', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'your view', true)]], [[say('Never mind.')]])
      room.plays('Bob', [[skips('not my field')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Ada: Never mind.'])
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED', 'Ada COMPLETED'])
      const [, , called] = await room.runs()
      expect(called).toMatchObject({ triggerMessageId: null, triggerSpaceId: room.spaceId })
      const [, asked] = await room.messages()
      expect(await room.outcomes(asked?.id ?? '')).toEqual(['Bob SKIPPED'])
      const prompt = await wokenWith(room.agents.Ada.name, 2)
      expect(prompt).toContain(`${room.agents.Bob.name} skipped: it posted nothing here: "not my field"`)
      expect(prompt).toContain('"text":"Bob?"')
    })

    test('skips and no agent waits: no agent responds', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[skips('not for me')]])
      const { message } = await room.says('Anyone?')
      await room.chainsEnd()
      expect(await room.conversation()).toEqual(['Husam: Anyone?'])
      expect(await room.outcomes(message.id)).toEqual(['Ada SKIPPED', 'Bob NOT_ROUTED'])
    })

    test('posts nothing: counts as a skip for the waiting agent', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Silence.')]])
      room.plays('Bob', [])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Ada: Silence.'])
      expect(await wokenWith(room.agents.Ada.name, 2)).toContain('skipped: it posted nothing here')
    })

    test('posts a message and then skips: it has responded, and the skip ends the run normally', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Thanks.')]])
      room.plays('Bob', [[say('Yes.')], [skips('that was all')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Bob: Yes.', 'Ada: Thanks.'])
      const [, asked] = await room.messages()
      expect(await room.outcomes(asked?.id ?? '')).toEqual(['Bob RUN'])
      expect(await wokenWith(room.agents.Ada.name, 2)).toContain('has responded')
    })

    test('mentions without a text: the mentioned agent runs, without a message', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[mentions(room.agents.Bob, 'better you')]])
      room.plays('Bob', [[say('I will.')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Bob: I will.'])
      const [, second] = await room.runs()
      expect(second).toMatchObject({ triggerMessageId: null, triggerSpaceId: room.spaceId })
      expect(await wokenWith(room.agents.Bob.name, 1)).toContain(
        `You were mentioned by ${room.agents.Ada.name}: "better you"`,
      )
    })

    test('fails: the stack is popped as for a skip, so that no agent waits forever', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Bob is ill.')]])
      room.plays('Bob', [[{ error: 'No such model.', status: 400 }]])
      await room.hears()
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob FAILED', 'Ada COMPLETED'])
      expect(await wokenWith(room.agents.Ada.name, 2)).toContain('failed before it was done')
    })

    test('is stopped: the same; its own mention has no effect', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Bob was stopped.')]])
      room.plays('Bob', [[say('Cyd?'), mentions(room.agents.Cyd, 'c', true)], [{ hang: true }]])
      await room.says('Go')
      await parley.models.request(
        ({ instructions, step }) => step === 1 && instructions.startsWith(`You are ${room.agents.Bob.name},`),
      )
      const [, second] = await room.runs()
      await parley.app.domain.control.stopRun(room.human, { runId: second?.id ?? '', cascade: false })
      await room.chainsEnd()
      expect(await room.conversation()).toEqual(['Husam: Go', 'Ada: Bob?', 'Bob: Cyd?', 'Ada: Bob was stopped.'])
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob CANCELED', 'Ada COMPLETED'])
      expect(await wokenWith(room.agents.Ada.name, 2)).toContain('was stopped before it was done')
    })

    test('is stopped together with the runs that it triggered: the call-backs end too, and the stack is empty', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[{ hang: true }]])
      room.plays('Bob', [[{ hang: true }]])
      await room.says('Go')
      await parley.models.request(({ instructions }) => instructions.startsWith(`You are ${room.agents.Bob.name},`))
      const [first] = await room.runs()
      await parley.app.domain.control.stopRun(room.human, { runId: first?.id ?? '', cascade: true }).catch(() => {})
      await room.chainsEnd()
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob CANCELED', 'Ada CANCELED'])
      expect(await room.chains()).toMatchObject([{ replyStack: [], holderId: null }])
    })
  })

  describe('in the prompt', () => {
    test('an agent in turn sees what it can do, and to whom it can delegate', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Bob: { description: 'Knows\nmoney.' } })
      room.plays('Ada', [[say('Hi.')]])
      await room.hears()
      const { instructions, toolNames } = parley.models.requests[0] ?? { instructions: '', toolNames: [] }
      expect(instructions).toContain('You can respond, delegate or skip')
      expect(instructions).toContain(`- "${room.agents.Bob.name}" (id: ${room.agents.Bob.id}): "Knows\\nmoney."`)
      expect(instructions).not.toContain('Waiting for a reply')
      expect(toolNames).toEqual(expect.arrayContaining(['mentionAgent', 'delegate', 'skip']))
    })

    test('a mentioned agent sees who mentioned it and why, as quoted data, and which agents wait', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'])
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'line one\nline "two"', true)]], [])
      room.plays('Bob', [[say('Yes.')]])
      await room.hears()
      const asked = parley.models.requests.find(({ instructions }) =>
        instructions.startsWith(`You are ${room.agents.Bob.name},`),
      )
      expect(asked?.messages.at(-1)?.text).toContain(
        `You were mentioned by ${room.agents.Ada.name}: "line one\\nline \\"two\\""`,
      )
      expect(asked?.instructions).toContain(
        `in the order in which they are called back: "${room.agents.Ada.name}" (id: ${room.agents.Ada.id})`,
      )
      expect(asked?.instructions).not.toContain('line one')
    })

    test('agents of other spaces see none of this', async () => {
      const { human, space } = await parley.room('Loner')
      parley.models.script(() => [say('Hi.')].slice(0, 0).concat([{ text: 'Nothing.' }]))
      const { runs } = await parley.send(human, space.id, 'Hello')
      await parley.runWhen(runs[0]?.id ?? '')
      expect(parley.models.requests[0]?.toolNames).not.toContain('mentionAgent')
      expect(parley.models.requests[0]?.toolNames).not.toContain('skip')
      expect(parley.models.requests[0]?.instructions).not.toContain('delegate')
    })
  })

  test('across spaces: the reply to a question in the entered space is posted there, and the caller is called back there', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    const other = await parley.space(room.human, [room.agents.Ada.id, room.agents.Bob.id], {
      routing: 'MENTION_CHAIN',
      name: 'Elsewhere',
    })
    room.plays(
      'Ada',
      [[say('I will ask.'), enter(other), say('Bob?'), mentions(room.agents.Bob, 'b', true)]],
      [[say('Thanks.'), enter({ id: room.spaceId }), say('Bob says 42.')]],
    )
    room.plays('Bob', [[say('42.')]])
    await room.hears('Ask Bob')
    expect(await room.conversation()).toEqual(['Husam: Ask Bob', 'Ada: I will ask.', 'Ada: Bob says 42.'])
    const there = await parley.messages(other.id)
    expect(there.map(({ parts }) => (parts as { text: string }[])[0]?.text)).toEqual(['Bob?', '42.', 'Thanks.'])
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED', 'Ada COMPLETED'])
    expect((await room.runs()).map(({ triggerSpaceId }) => triggerSpaceId)).toEqual([room.spaceId, other.id, other.id])
    expect(await room.chains()).toMatchObject([{ spaceId: room.spaceId, depth: 3, replyStack: [] }])
  })
})

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { openChainRoom } from '../support/chain-room.ts'
import { hasPostgres } from '../support/postgres.ts'
import { delegates, enter, mentions, say, skips } from '../support/turns.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('handoffs, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const prisma = () => parley.app.platform.db.prisma

  /** Returns the ids of the updated messages in a space's log, in order. */
  async function updatesIn(spaceId: string, after: string): Promise<string[]> {
    const delivery = await parley.app.platform.log.read(`space:${spaceId}`, after, 1000)
    const entries = delivery.type === 'publications' ? delivery.publications : []
    return entries.flatMap(({ event }) =>
      event.type === 'MessageUpdated' ? [(event as unknown as { messageId: string }).messageId] : [],
    )
  }

  test('viewers of a message are notified when its outcomes change: delegated, mentioned, called back, skipped', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    const [head = ''] = await parley.app.platform.log.heads([`space:${room.spaceId}`])
    room.plays('Ada', [[delegates(room.agents.Bob)]])
    room.plays('Bob', [[say('Cyd?'), mentions(room.agents.Cyd, 'c', true)]], [[skips()]])
    room.plays('Cyd', [[say('Yes.')]])
    await room.hears()
    const [first, second, third] = (await room.messages()).map(({ id }) => id)
    // The first message also gets an event for its usage.
    const ofAnswers = async () => (await updatesIn(room.spaceId, head)).filter((id) => id !== first)
    await until('all updates are published', async () => (await ofAnswers()).length === 3)
    expect(await ofAnswers()).toEqual([second, third, third])
    expect((await updatesIn(room.spaceId, head))[0]).toBe(first)
    expect(await room.outcomes(third ?? '')).toEqual(['Ada NOT_ROUTED', 'Bob SKIPPED'])
  })

  test.each([
    ['MENTION_CHAIN', 'RUN'],
    ['BROADCAST', 'DUPLICATE'],
  ] as const)(
    'a form with a mention that is answered later, then under %s, does not wake the agent again: %s',
    async (routing, kind) => {
      const form = {
        name: 'form',
        description: 'A form.',
        inputSchema: { type: 'object' },
        execution: 'SPACE',
        visible: true,
      } as const
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: { mind: 'PERSISTENT', tools: [form] } })
      const { human, spaceId } = room
      room.plays('Ada', [[enter({ id: spaceId })], [{ toolCall: 'form', input: {} }, mentions(room.agents.Bob)]], [])
      room.plays('Bob', [[say('I see it.')]])
      await room.hears()
      const shown = (await room.messages())[1]?.id ?? ''
      expect(await room.outcomes(shown)).toEqual(['Bob RUN'])
      if (routing !== 'MENTION_CHAIN') await parley.app.domain.spaces.update(human, { id: spaceId, routing })
      const [call] = await room.calls('form')
      await parley.app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: 'yes' })
      await room.chainsEnd()
      const woken = (await room.runs()).filter(({ agentId }) => agentId === room.agents.Bob.id)
      expect(woken).toMatchObject([{ triggerMessageId: shown, status: 'COMPLETED' }])
      expect(await prisma().outcome.findMany({ where: { messageId: shown } })).toMatchObject([
        { kind, runId: woken[0]?.id },
      ])
    },
  )

  test('a delegated plan keeps its trigger: the target runs by the same plan, in the entered space', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays('Ada', [[enter({ id: room.spaceId })], [delegates(room.agents.Bob, 'your figures')]])
    room.plays('Bob', [[delegates(room.agents.Ada)], [say('The figures: 42.')]])
    const schedule = { afterSeconds: 1 }
    await parley.app.domain.plans.create(parley.admin, {
      agentId: room.agents.Ada.id,
      name: 'report',
      instruction: 'Report figures.',
      schedule,
    })
    await until('Bob was woken', async () => (await room.runs()).length === 2)
    await room.chainsEnd()
    expect(await room.conversation()).toEqual(['Bob: The figures: 42.'])
    expect(await room.story()).toEqual(['Ada CANCELED', 'Bob COMPLETED'])
    const [first, second] = await room.runs()
    for (const field of [
      'triggerType',
      'triggerName',
      'triggerPayload',
      'triggerSummary',
      'rootId',
      'depth',
      'chainId',
    ] as const) {
      expect(second?.[field]).toEqual(first?.[field])
    }
    expect(second).toMatchObject({ triggerType: 'PLAN', activeSpaceId: room.spaceId })
    const refused = (await room.calls('delegate')).map(
      ({ output }) => (output as { error?: { code: string } }).error?.code,
    )
    expect(refused).toEqual([undefined, 'ALREADY_TRIGGERED'])
    expect(await room.chains()).toMatchObject([{ depth: 2, spaceId: room.spaceId, holderId: null }])
  })

  test('a delegated service call keeps its payload and its sender', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays('Ada', [[enter({ id: room.spaceId }), delegates(room.agents.Bob)]])
    room.plays('Bob', [[say('Seen.')]])
    const { run } = await parley.app.domain.control.triggerAgent(parley.admin, {
      agentId: room.agents.Ada.id,
      serviceName: 'jira',
      payload: { ticket: 'P-1' },
    })
    await until('Bob was woken', async () => (await room.runs()).length === 2)
    await room.chainsEnd()
    const [, second] = await room.runs()
    expect(second).toMatchObject({
      triggerType: 'SERVICE',
      triggerName: 'jira',
      triggerPayload: { ticket: 'P-1' },
      parentRunId: run?.id,
    })
  })

  test('delegate works in the active space: the target must be a member there and in the space of the message', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Dan'])
    const { Ada, Bob, Dan } = room.agents
    const cyd = await parley.agent('Cyd')
    const other = await parley.space(room.human, [Ada.id, Bob.id, cyd.id], { routing: 'MENTION_CHAIN' })
    const broadcast = await parley.space(room.human, [Ada.id, Bob.id])
    const enterAndDelegate = (space: { id: string }, target: { id: string }) => [enter(space), delegates(target)]
    room.plays('Ada', [
      enterAndDelegate(broadcast, Bob),
      enterAndDelegate(other, Dan),
      enterAndDelegate(other, cyd),
      enterAndDelegate(other, Bob),
    ])
    room.plays('Bob', [[say('It is mine.')]])
    await room.hears('Whose is it?')
    const outputs = (await room.calls('delegate')).map(({ output }) => output)
    expect(outputs).toMatchObject([
      { error: { code: 'NO_CHAIN' } },
      { error: { code: 'NOT_A_MEMBER', message: expect.stringContaining('no member of this space') } },
      { error: { code: 'NOT_A_MEMBER', message: expect.stringContaining('not a member of the space that woke you') } },
      { success: true },
    ])
    expect(await room.conversation()).toEqual(['Husam: Whose is it?', 'Bob: It is mine.'])
  })

  test('a mention in a run outside of any chain starts a chain, with that run as its first', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays(
      'Ada',
      [[enter({ id: room.spaceId }), say('Bob?'), mentions(room.agents.Bob, 'b', true)]],
      [[say('Thanks.')]],
    )
    room.plays('Bob', [[say('Yes.')]])
    await parley.app.domain.control.triggerAgent(parley.admin, {
      agentId: room.agents.Ada.id,
      serviceName: 'jira',
      payload: {},
    })
    await until('Bob was woken', async () => (await room.runs()).length > 1)
    await room.chainsEnd()
    expect(await room.conversation()).toEqual(['Ada: Bob?', 'Bob: Yes.', 'Ada: Thanks.'])
    const ids = new Set((await room.runs()).map(({ chainId }) => chainId))
    expect(ids.size).toBe(1)
    expect(await room.chains()).toMatchObject([{ depth: 3, replyStack: [] }])
  })

  describe('handoffs by agents that name their spaces', () => {
    const SPACE_TOOLS = { toolset: 'SPACE_TOOLS' as const }
    const tell = (spaceId: string, text: string, mention?: string) => ({
      toolCall: 'sendSpaceMessage',
      input: { spaceId, text, ...(mention === undefined ? {} : { mention }) },
    })

    test('mentionAgent works in the space of the last post, even in a run that began without an active space', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: SPACE_TOOLS, Bob: SPACE_TOOLS })
      room.plays(
        'Ada',
        [[tell(room.spaceId, 'Bob?')], [mentions(room.agents.Bob, 'b', true)]],
        [[tell(room.spaceId, 'Thanks.')]],
      )
      room.plays('Bob', [[tell(room.spaceId, 'Yes.')]])
      const { triggerAgent } = parley.app.domain.control
      await triggerAgent(parley.admin, { agentId: room.agents.Ada.id, serviceName: 'jira', payload: {} })
      await until('Bob was woken', async () => (await room.runs()).length > 1)
      await room.chainsEnd()
      expect(await room.conversation()).toEqual(['Ada: Bob?', 'Bob: Yes.', 'Ada: Thanks.'])
    })

    test('a mention of a message works when the run ends, like mentionAgent without expectReply', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: SPACE_TOOLS, Bob: SPACE_TOOLS })
      room.plays('Ada', [[tell(room.spaceId, 'Bob?', room.agents.Bob.id)]])
      room.plays('Bob', [[tell(room.spaceId, 'Ada?', room.agents.Ada.id)]])
      await room.hears()
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED'])
      const reply = (await room.messages()).at(-1)
      const refused = await prisma().outcome.findFirstOrThrow({ where: { messageId: reply?.id ?? '' } })
      expect(refused).toMatchObject({
        agentId: room.agents.Ada.id,
        kind: 'NOT_ROUTED',
        reason: expect.stringContaining('already mentioned'),
      })
    })

    test('delegates without posting', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: SPACE_TOOLS, Bob: SPACE_TOOLS })
      room.plays('Ada', [[delegates(room.agents.Bob, 'yours')]])
      room.plays('Bob', [[tell(room.spaceId, 'Mine.')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Bob: Mine.'])
      expect(await room.story()).toEqual(['Ada CANCELED', 'Bob COMPLETED'])
    })
  })

  describe('with persistent agents', () => {
    const PERSISTENT = { mind: 'PERSISTENT' as const }

    test('a message wakes one agent through its inbox; the mentioned one responds, and the caller is called back', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Bob: PERSISTENT })
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'your view', true)]], [[say('Thanks.')]])
      room.plays('Bob', [[enter({ id: room.spaceId })], [say('Mine is this.')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Bob: Mine is this.', 'Ada: Thanks.'])
      expect(await room.chains()).toMatchObject([{ depth: 3, replyStack: [], holderId: null }])
      const asked = parley.models.requests.find(({ instructions }) =>
        instructions.startsWith(`You are ${room.agents.Bob.name},`),
      )
      expect(asked?.messages.at(-1)?.text).toContain(`You were mentioned by ${room.agents.Ada.name}: "your view"`)
      expect(asked?.instructions).toContain('You can respond, delegate or skip')
    })

    test('a requester is called back through its inbox, even after a skip', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: PERSISTENT })
      room.plays(
        'Ada',
        [[enter({ id: room.spaceId }), say('Bob?'), mentions(room.agents.Bob, 'b', true)]],
        [[enter({ id: room.spaceId }), say('Alone, then.')]],
      )
      room.plays('Bob', [[skips('busy')]])
      await room.hears()
      expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Bob?', 'Ada: Alone, then.'])
      const texts = parley.models.requests.map(({ messages }) => messages.at(-1)?.text ?? '')
      expect(
        texts.some((text) => text.includes(`${room.agents.Bob.name} skipped: it posted nothing here: "busy"`)),
      ).toBe(true)
    })

    test('a skip leaves only the outcome, and pops the stack', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Bob: PERSISTENT })
      room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]], [[say('Nobody.')]])
      room.plays('Bob', [[skips()]])
      await room.hears()
      expect(await room.story()).toEqual(['Ada COMPLETED', 'Ada COMPLETED'])
      const [, asked] = await room.messages()
      expect(await room.outcomes(asked?.id ?? '')).toEqual(['Bob SKIPPED'])
      expect(await room.chains()).toMatchObject([{ depth: 3, replyStack: [], holderId: null }])
    })

    test('one agent delegates to another: an inbox event with the original message, and no second event for the same message', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: PERSISTENT, Bob: PERSISTENT })
      room.plays('Ada', [[enter({ id: room.spaceId }), delegates(room.agents.Bob, 'yours')]])
      room.plays('Bob', [[enter({ id: room.spaceId }), delegates(room.agents.Ada)], [say('Mine.')]])
      const { message } = await room.says('Whose is it?')
      await room.chainsEnd()
      expect(await room.conversation()).toEqual(['Husam: Whose is it?', 'Bob: Mine.'])
      const events = await prisma().inboxEvent.findMany({ where: { messageId: message.id }, orderBy: { id: 'asc' } })
      expect(events.map(({ agentId, type }) => [agentId, type])).toEqual([
        [room.agents.Ada.id, 'SPACE_MESSAGE'],
        [room.agents.Bob.id, 'SPACE_MESSAGE'],
      ])
      expect(await room.outcomes(message.id)).toEqual(['Ada NOT_ROUTED', expect.stringMatching(/^Bob (INBOX|RUN)$/)])
    })

    test('one agent delegates to a stateless agent: a run for the original message', async () => {
      const room = await openChainRoom(parley, ['Ada', 'Bob'], { Ada: PERSISTENT })
      room.plays('Ada', [[enter({ id: room.spaceId }), delegates(room.agents.Bob)]])
      room.plays('Bob', [[say('Mine.')]])
      const { message } = await room.says('Whose is it?')
      await room.chainsEnd()
      const [, second] = await room.runs()
      expect(second).toMatchObject({
        triggerType: 'SPACE_MESSAGE',
        triggerMessageId: message.id,
        depth: 0,
        activeSpaceId: room.spaceId,
      })
      expect(await room.conversation()).toEqual(['Husam: Whose is it?', 'Bob: Mine.'])
    })
  })
})

describe.skipIf(!hasPostgres)('handoffs, over several processes', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('a mention survives the worker that made it: another worker ends the run, and the mention takes effect', async () => {
    const dying = await startApplication({ stack: 'postgres' })
    const { models } = dying
    const room = await openChainRoom(dying, ['Ada', 'Bob'])
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    room.plays('Ada', [
      [say('Bob?'), mentions(room.agents.Bob)],
      [{ gate: held }, { text: 'Done.' }],
    ])
    room.plays('Bob', [[say('Yes.')]])
    await room.says('Hello')
    const second = (n: number) => models.requests.filter(({ step }) => step === 1).length >= n
    await until('the second step is running', () => second(1))
    const heir = await startApplication({ stack: 'postgres', beside: dying })
    await dying.app.close(0)
    await until('the other process is at the second step', () => second(2))
    release()
    await until('the chain has ended', async () => {
      const chains = await heir.app.platform.db.prisma.chain.findMany({ where: { spaceId: room.spaceId } })
      return chains.every(({ holderId }) => holderId === null)
    })
    const runs = await heir.app.platform.db.prisma.run.findMany({
      where: { triggerSpaceId: room.spaceId },
      orderBy: { id: 'asc' },
    })
    expect(runs.map(({ status, attempt }) => [status, attempt])).toEqual([
      ['COMPLETED', 2],
      ['COMPLETED', 1],
    ])
    await heir.close()
    await models.close()
    await dying.stores.close()
  })

  test('ten humans concurrently: each message gets its own turn, across two processes and a restart', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    const other = await startApplication({ stack: 'postgres', beside: parley })
    parley.models.script(() => [{ text: 'Nothing.' }])
    const say10 = (app: TestApplication['app']) =>
      Promise.all(
        Array.from({ length: 5 }, (_, n) =>
          app.domain.sending.send(room.human, { spaceId: room.spaceId, text: `${n}` }),
        ),
      )
    const sent = (await Promise.all([say10(parley.app), say10(other.app)])).flat()
    const bySeq = sent.sort((a, b) => a.message.seq - b.message.seq).map(({ runs }) => runs[0]?.agentId)
    const { Ada, Bob, Cyd } = room.agents
    const round = [Ada.id, Bob.id, Cyd.id]
    expect(bySeq).toEqual(Array.from({ length: 10 }, (_, n) => round[n % 3]))
    await other.close()
    const later = await startApplication({ stack: 'postgres', beside: parley })
    const { runs } = await later.app.domain.sending.send(room.human, { spaceId: room.spaceId, text: 'and now?' })
    expect(runs[0]?.agentId).toBe(Bob.id)
    await later.close()
  })

  test('the number of runs per message is limited in a chain too: a request without a possible call-back is refused', async () => {
    const settings = { PARLEY_MAX_ROOT_RUNS: '3', PARLEY_MAX_REPLY_STACK: '1' }
    const tight = await startApplication({ stack: 'postgres', settings })
    const room = await openChainRoom(tight, ['Ada', 'Bob', 'Cyd'])
    const { Bob, Cyd } = room.agents
    room.plays('Ada', [[say('Bob?'), mentions(Bob, 'b', true)]], [[mentions(Cyd)], [say('Alone.')]])
    room.plays('Bob', [[delegates(Cyd)], [mentions(Cyd, 'c', true)], [mentions(Cyd)], [say('Yes.')]])
    await room.hears()
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED', 'Ada COMPLETED'])
    const codes = (await room.calls('mentionAgent')).map(
      ({ output }) => (output as { error?: { code: string } }).error?.code ?? 'ok',
    )
    expect(codes).toEqual(['ok', 'REPLY_STACK_FULL', 'LOOP_LIMIT', 'LOOP_LIMIT'])
    expect((await room.calls('delegate'))[0]?.output).toMatchObject({
      error: { code: 'LOOP_LIMIT', message: expect.stringContaining('too few further runs to call back') },
    })
    expect(await room.chains()).toMatchObject([{ depth: 3, replyStack: [], holderId: null }])
    await tight.close()
  })
})

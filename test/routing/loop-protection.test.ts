import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ChainRoom, openChainRoom } from '../support/chain-room.ts'
import { delegates, enter, mentions, say, skips } from '../support/turns.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('refusals by the tools of a chain, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Returns the codes with which a tool refused calls, or `ok` for a call that it accepted. */
  async function results(room: ChainRoom<string>, toolName: string): Promise<string[]> {
    const calls = await room.calls(toolName)
    return calls.map(({ output }) => (output as { error?: { code: string } }).error?.code ?? 'ok')
  }

  test('no self-mention: the result has the error', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays('Ada', [[mentions(room.agents.Ada)], [delegates(room.agents.Ada)], [say('Then I answer myself.')]])
    await room.hears()
    expect((await room.calls('mentionAgent'))[0]?.output).toMatchObject({
      error: { code: 'SELF_MENTION', message: expect.stringContaining('An agent cannot mention itself.') },
    })
    expect(await results(room, 'delegate')).toEqual(['SELF_MENTION'])
    expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Then I answer myself.'])
  })

  test('no circular mention within a chain: a → b → a is refused, and the model can continue', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays('Ada', [[say('Bob?'), mentions(room.agents.Bob)]])
    room.plays('Bob', [[mentions(room.agents.Ada)], [say('Then I say it to all.')]])
    await room.hears()
    expect((await room.calls('mentionAgent'))[1]?.output).toMatchObject({
      error: { code: 'CIRCULAR_MENTION', message: expect.stringContaining('already mentioned') },
    })
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED'])
  })

  test('no circle of three either, once it would close: a → b → c → a is allowed, and then a may not mention c again', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    room.plays('Ada', [[say('1'), mentions(room.agents.Bob)]], [[say('4'), mentions(room.agents.Cyd)]])
    room.plays('Bob', [[say('2'), mentions(room.agents.Cyd)]])
    room.plays('Cyd', [[say('3'), mentions(room.agents.Ada)]])
    await room.hears('0')
    expect(await results(room, 'mentionAgent')).toEqual(['ok', 'ok', 'ok', 'CIRCULAR_MENTION'])
    expect(await room.conversation()).toEqual(['Husam: 0', 'Ada: 1', 'Bob: 2', 'Cyd: 3', 'Ada: 4'])
  })

  test('a call-back is allowed where a mention would be circular, and the caller may ask the same agent again', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays(
      'Ada',
      [[say('1'), mentions(room.agents.Bob, 'b', true)]],
      [[say('3'), mentions(room.agents.Bob, 'b', true)]],
      [[say('5')]],
    )
    room.plays('Bob', [[say('2')]], [[say('4')]])
    await room.hears('0')
    expect(await room.conversation()).toEqual(['Husam: 0', 'Ada: 1', 'Bob: 2', 'Ada: 3', 'Bob: 4', 'Ada: 5'])
  })

  test('a mention that could not be called back within 10 runs is refused at once, and allowed without a reply', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    const ask = [[say('Bob?'), mentions(room.agents.Bob, 'again', true)]]
    const last = [[mentions(room.agents.Bob, 'again', true)], [say('Bob, once more.'), mentions(room.agents.Bob)]]
    room.plays('Ada', ask, ask, ask, ask, last)
    room.plays('Bob', ...Array.from({ length: 5 }, () => [[say('Yes.')]]))
    await room.hears()
    expect((await results(room, 'mentionAgent')).slice(3)).toEqual(['ok', 'LOOP_LIMIT', 'ok'])
    expect((await room.calls('mentionAgent'))[4]?.output).toMatchObject({
      error: { message: expect.stringContaining('you could not be called back. Mention without expectReply') },
    })
    expect(await room.story()).toHaveLength(10)
    expect(await room.chains()).toMatchObject([{ depth: 10, replyStack: [], holderId: null }])
    const messages = await room.messages()
    expect(await room.outcomes(messages.at(-1)?.id ?? '')).toEqual(['Ada NOT_ROUTED'])
  })

  test('a run that a call-back needs is reserved: mentions and delegations cannot use it', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    const { Ada, Bob, Cyd } = room.agents
    const ask = [[say('Bob?'), mentions(Bob, 'again', true)]]
    room.plays('Ada', ask, ask, ask, ask, [[say('I have it.')]])
    const answer = [[say('Yes.')]]
    room.plays('Bob', answer, answer, answer, [[say('Cyd knows.'), mentions(Cyd)]])
    room.plays('Cyd', [[delegates(Ada)], [mentions(Ada)], [say('This is it.')]])
    await room.hears()
    expect(await results(room, 'delegate')).toEqual(['LOOP_LIMIT'])
    expect((await room.calls('mentionAgent')).at(-1)?.output).toMatchObject({
      error: {
        code: 'LOOP_LIMIT',
        message: expect.stringContaining('the remaining runs are reserved for the agents that wait'),
      },
    })
    expect(await room.story()).toHaveLength(10)
    expect((await room.conversation()).slice(-2)).toEqual(['Cyd: This is it.', 'Ada: I have it.'])
  })

  test('a mention or a delegation by the tenth run is refused with a result that the model can act on', async () => {
    const names = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K']
    const room = await openChainRoom(parley, names)
    for (const [index, name] of names.slice(0, 9).entries()) {
      const next = room.agents[names[index + 1] as string] as { id: string }
      room.plays(name, [[say(`From ${name}`), mentions(next)]])
    }
    const last = room.agents.K as { id: string }
    room.plays('J', [[delegates(last)], [mentions(last)], [say('It ends with me.')]])
    await room.hears()
    expect(await room.story()).toHaveLength(10)
    expect(await results(room, 'delegate')).toEqual(['LOOP_LIMIT'])
    expect((await results(room, 'mentionAgent')).at(-1)).toBe('LOOP_LIMIT')
    expect((await room.conversation()).at(-1)).toBe('J: It ends with me.')
  })

  test.each([
    ['four in ten runs, which can all be called back,', 4, 'LOOP_LIMIT', {}],
    ['five, the size of the reply stack in longer chains,', 5, 'REPLY_STACK_FULL', { PARLEY_MAX_CHAIN_DEPTH: '20' }],
  ])(
    '%s is the limit of waiting agents; the next one may not expect a reply, but may mention another',
    async (_, most, code, settings) => {
      const host = Object.keys(settings).length === 0 ? parley : await startApplication({ stack, settings })
      const names = ['A', 'B', 'C', 'D', 'E', 'F', 'G'].slice(0, most + 2)
      const room = await openChainRoom(host, names)
      const following = (index: number) => room.agents[names[index + 1] ?? ''] as { id: string }
      for (const [index, name] of names.slice(0, most).entries()) {
        room.plays(name, [[say(`From ${name}`), mentions(following(index), 'go on', true)]], [[say(`Back at ${name}`)]])
      }
      const [next = '', last = ''] = names.slice(most)
      room.plays(next, [
        [say('Me too'), mentions(following(most), 'go on', true)],
        [mentions(following(most), 'go on', false)],
      ])
      room.plays(last, [[say('The last')]])
      await room.hears()
      expect((await results(room, 'mentionAgent')).slice(most)).toEqual([code, 'ok'])
      expect(await room.chains()).toMatchObject([{ depth: 2 * most + 2, replyStack: [], holderId: null }])
      const backwards = names.slice(0, most).toReversed()
      expect((await room.conversation()).slice(-most)).toEqual(backwards.map((name) => `${name}: Back at ${name}`))
      if (host !== parley) await host.close()
    },
  )

  test('one mention per run; after a mention, no skip and no delegation', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    room.plays('Ada', [
      [say('Bob?'), mentions(room.agents.Bob)],
      [mentions(room.agents.Cyd)],
      [skips()],
      [delegates(room.agents.Cyd)],
    ])
    room.plays('Bob', [[say('Yes.')]])
    await room.hears()
    expect(await results(room, 'mentionAgent')).toEqual(['ok', 'ALREADY_MENTIONED'])
    expect(await results(room, 'skip')).toEqual(['ALREADY_MENTIONED'])
    expect(await results(room, 'delegate')).toEqual(['ALREADY_MENTIONED'])
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob COMPLETED'])
  })

  test('after delegate or skip, further calls of the run are ignored', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob', 'Cyd'])
    room.plays('Ada', [
      [delegates(room.agents.Bob), say('Psst'), mentions(room.agents.Cyd), skips(), delegates(room.agents.Cyd)],
    ])
    room.plays('Bob', [[skips(), say('Psst'), mentions(room.agents.Cyd)]])
    await room.hears()
    expect(await results(room, 'delegate')).toEqual(['ok', 'RUN_IS_OVER'])
    expect(await results(room, 'send_message')).toEqual(['RUN_IS_OVER', 'RUN_IS_OVER'])
    expect(await results(room, 'mentionAgent')).toEqual(['RUN_IS_OVER', 'RUN_IS_OVER'])
    expect(await room.conversation()).toEqual(['Husam: Hello?'])
    expect(await room.story()).toEqual(['Ada CANCELED', 'Bob COMPLETED'])
  })

  test('no handoff after a message in the same space', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays('Ada', [[say('Well…'), delegates(room.agents.Bob)], [say('I go on.')]])
    await room.hears()
    expect(await results(room, 'delegate')).toEqual(['ALREADY_SPOKEN'])
    expect(await room.conversation()).toEqual(['Husam: Hello?', 'Ada: Well…', 'Ada: I go on.'])
  })

  test('no handoff to an agent that already received this message, nor to a human or a non-member', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    const stranger = await parley.agent('Stranger')
    room.plays('Ada', [
      [delegates(stranger)],
      [delegates(room.human)],
      [mentions(stranger)],
      [mentions(room.human)],
      [delegates(room.agents.Bob)],
    ])
    room.plays('Bob', [[delegates(room.agents.Ada)], [say('So it is mine.')]])
    await room.hears()
    expect(await results(room, 'delegate')).toEqual(['NOT_A_MEMBER', 'NOT_AN_AGENT', 'ok', 'ALREADY_TRIGGERED'])
    expect(await results(room, 'mentionAgent')).toEqual(['NOT_A_MEMBER', 'NOT_AN_AGENT'])
    expect(await room.conversation()).toEqual(['Husam: Hello?', 'Bob: So it is mine.'])
  })

  test('no delegation of a reply back to its sender', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    room.plays(
      'Ada',
      [[say('Bob?'), mentions(room.agents.Bob, 'b', true)]],
      [[delegates(room.agents.Bob)], [say('Fine.')]],
    )
    room.plays('Bob', [[say('Yes.')]])
    await room.hears()
    expect(await results(room, 'delegate')).toEqual(['ALREADY_TRIGGERED'])
  })

  test('no handoff in a space with another routing, nor without a space', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    const broadcast = await parley.space(room.human, [room.agents.Ada.id], { routing: 'BROADCAST', name: 'Elsewhere' })
    room.plays('Ada', [[enter(broadcast), mentions(room.agents.Bob)]])
    await room.hears()
    expect(await results(room, 'mentionAgent')).toEqual(['NO_CHAIN'])
    room.plays('Ada', [[mentions(room.agents.Bob)], [delegates(room.agents.Bob)]])
    await parley.app.domain.control.triggerAgent(parley.admin, {
      agentId: room.agents.Ada.id,
      serviceName: 'jira',
      payload: 1,
    })
    await room.chainsEnd()
    expect((await results(room, 'mentionAgent')).at(-1)).toBe('NO_ACTIVE_SPACE')
    expect(await results(room, 'delegate')).toEqual(['NO_ACTIVE_SPACE'])
  })

  test('a target that leaves before the run ends counts as one that skipped', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'])
    let leave = () => {}
    const left = new Promise<void>((resolve) => {
      leave = resolve
    })
    room.plays(
      'Ada',
      [
        [say('Bob?'), mentions(room.agents.Bob, 'b', true)],
        [{ gate: left }, { text: 'Done.' }],
      ],
      [[say('Gone.')]],
    )
    await room.says('Hello')
    await until('the mention is accepted', async () => (await results(room, 'mentionAgent'))[0] === 'ok')
    await parley.app.domain.members.remove(room.human, { spaceId: room.spaceId, entityId: room.agents.Bob.id })
    leave()
    await room.chainsEnd()
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Ada COMPLETED'])
    expect(parley.models.requests.some(({ messages }) => messages.at(-1)?.text.includes('could not be reached'))).toBe(
      true,
    )
  })
})

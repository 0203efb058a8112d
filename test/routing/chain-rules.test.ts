import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  afterTurn,
  agentOf,
  type ChainState,
  callBack,
  cutShort,
  type Delegation,
  type Mention,
  NEW_CHAIN,
  refuseDelegation,
  refuseMention,
} from '../../src/routing/chain-rules.ts'

const LIMITS = { maxChainDepth: 10, maxReplyStack: 5 }

function mention(targetId: string, expectReply = false): Mention {
  return { type: 'mention', targetId, reason: 'because', expectReply, spaceId: 'spc' }
}

function chain(state: Partial<ChainState> = {}): ChainState {
  return { ...NEW_CHAIN, ...state }
}

const waiter = (entityId: string) => ({ entityId, reason: 'because', spaceId: 'spc' })

// The rows of the seed's table "Chain Rules" but the first, which routing decides (mention-chain.test.ts).
describe('what happens next', () => {
  test('an agent responds with a mention that expects no reply: the mentioned agent runs, and the chain goes on from there', () => {
    const { state, next } = afterTurn(chain(), 'a', mention('b'), LIMITS)
    expect(next).toEqual(mention('b'))
    expect(state).toEqual({ depth: 1, replyStack: [], mentionedPairs: ['a->b'] })
  })

  test('an agent responds with a mention that expects a reply: the mentioned agent runs, and the caller waits', () => {
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x')] }), 'a', mention('b', true), LIMITS)
    expect(next).toEqual(mention('b', true))
    expect(state.replyStack).toEqual([waiter('x'), waiter('a')])
  })

  test('an agent responds without a mention: who asked last is called back', () => {
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x'), waiter('y')] }), 'a', null, LIMITS)
    expect(next).toEqual({ type: 'callback', waiter: waiter('y') })
    expect(state.replyStack).toEqual([waiter('x')])
  })

  test('an agent responds without a mention and nobody waits: the chain stops', () => {
    expect(afterTurn(chain(), 'a', null, LIMITS)).toEqual({ state: chain(), next: null })
  })

  test('an agent delegates: the target runs, and who waited for the delegator waits for the target', () => {
    const delegation: Delegation = { type: 'delegation', targetId: 'b', reason: null }
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x')] }), 'a', delegation, LIMITS)
    expect(next).toEqual(delegation)
    expect(state).toEqual(chain({ replyStack: [waiter('x')] }))
    expect(afterTurn(state, 'b', null, LIMITS).next).toEqual({ type: 'callback', waiter: waiter('x') })
  })

  // Skipping, failing and being stopped hand nothing on: to the rules they are one thing.
  test('an agent skips, fails or is stopped: who asked last is called back; if nobody waits, nobody responds', () => {
    expect(agentOf(afterTurn(chain({ replyStack: [waiter('x')] }), 'a', null, LIMITS).next ?? mention(''))).toBe('x')
    expect(afterTurn(chain(), 'a', null, LIMITS).next).toBeNull()
  })

  test('a mention that the rules forbid counts as none: who waits is called back', () => {
    const state = chain({ replyStack: [waiter('x')], mentionedPairs: ['b->a'] })
    expect(afterTurn(state, 'a', mention('b', true), LIMITS)).toEqual({
      state: { ...state, replyStack: [] },
      next: { type: 'callback', waiter: waiter('x') },
    })
  })

  test('at the greatest depth nobody runs any more, and the stack is cleared', () => {
    const state = chain({ depth: 10, replyStack: [waiter('x'), waiter('y')] })
    for (const handingOn of [null, mention('b'), { type: 'delegation' as const, targetId: 'b', reason: null }]) {
      const step = afterTurn(state, 'a', handingOn, LIMITS)
      expect(step).toMatchObject({ next: null, state: { depth: 10, replyStack: [] } })
      expect(step.forbidden).toBeDefined()
    }
  })

  test('what cannot be given is taken back: who waits is called back, or the chain is cut short', () => {
    const state = chain({ replyStack: [waiter('x')] })
    expect(callBack(state, LIMITS).next).toEqual({ type: 'callback', waiter: waiter('x') })
    expect(cutShort({ state, next: mention('b') })).toEqual({
      state: chain(),
      next: null,
      forbidden: mention('b'),
    })
  })
})

describe('loop protection', () => {
  const codeOf = (state: ChainState, from: string, to: string, expectReply = false) =>
    refuseMention(state, from, mention(to, expectReply), LIMITS)?.code ?? null

  test('no self-mention', () => {
    expect(refuseMention(chain(), 'a', mention('a'), LIMITS)).toMatchObject({
      code: 'SELF_MENTION',
      message: expect.stringContaining('An agent cannot mention itself.'),
    })
  })

  test('no circular mention: a may not mention b once b has mentioned a; the other way round it may again', () => {
    const state = chain({ mentionedPairs: ['b->a'] })
    expect(refuseMention(state, 'a', mention('b'), LIMITS)).toMatchObject({
      code: 'CIRCULAR_MENTION',
      message: expect.stringContaining('already mentioned'),
    })
    expect(codeOf(state, 'b', 'a')).toBeNull()
    expect(codeOf(state, 'a', 'c')).toBeNull()
  })

  test('a call-back is no mention: the system wakes who was mentioned before', () => {
    const asked = afterTurn(chain(), 'a', mention('b', true), LIMITS).state
    expect(agentOf(afterTurn(asked, 'b', null, LIMITS).next ?? mention(''))).toBe('a')
  })

  test('at most 10 runs in a chain, re-triggers included', () => {
    expect(codeOf(chain({ depth: 9 }), 'a', 'b')).toBeNull()
    expect(codeOf(chain({ depth: 10 }), 'a', 'b')).toBe('LOOP_LIMIT')
    expect(refuseDelegation(chain({ depth: 9 }), LIMITS)).toBeNull()
    expect(refuseDelegation(chain({ depth: 10 }), LIMITS)?.code).toBe('LOOP_LIMIT')
  })

  test('at most 5 on the reply stack; without expectReply the chain may go on', () => {
    const state = chain({ replyStack: ['v', 'w', 'x', 'y', 'z'].map(waiter) })
    expect(codeOf(state, 'a', 'b', true)).toBe('REPLY_STACK_FULL')
    expect(codeOf(state, 'a', 'b')).toBeNull()
    expect(codeOf(chain({ replyStack: state.replyStack.slice(1) }), 'a', 'b', true)).toBeNull()
  })
})

describe('any chain', () => {
  const AGENTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const agent = fc.constantFrom(...AGENTS)
  const mentions = fc.tuple(agent, fc.boolean()).map(([id, expectReply]) => mention(id, expectReply))
  const delegations = agent.map((targetId) => ({ type: 'delegation' as const, targetId, reason: null }))

  /** Plays a chain to its end: what each turn hands on, one after the other, then nothing. */
  function play(turns: (Mention | Delegation | null)[]) {
    const asked: string[] = []
    const called: string[] = []
    let state = chain()
    let holder = 'a'
    for (let runs = 1; ; runs++) {
      const { state: after, next, forbidden } = afterTurn(state, holder, turns[runs - 1] ?? null, LIMITS)
      if (after.replyStack.length > state.replyStack.length) asked.push(holder)
      if (next === null) return { asked, called, runs, isCut: forbidden !== undefined, stack: after.replyStack }
      holder = agentOf(next)
      if (next.type === 'callback') called.push(holder)
      state = { ...after, depth: after.depth + 1 }
    }
  }

  test('ends within 10 runs with an empty stack, and calls nobody back more often than it asked', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constant(null), mentions, delegations), { maxLength: 40 }), (turns) => {
        const { asked, called, runs, isCut, stack } = play(turns)
        expect(runs).toBeLessThanOrEqual(10)
        expect(stack).toEqual([])
        for (const id of AGENTS) {
          const [calls, questions] = [called, asked].map((ids) => ids.filter((other) => other === id).length)
          if (isCut) expect(calls).toBeLessThanOrEqual(questions ?? 0)
          else expect(calls).toBe(questions)
        }
      }),
    )
  })
})

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
} from '../../src/rules/chain.ts'

const LIMITS = { maxChainDepth: 10, maxReplyStack: 5 }

function mention(targetId: string, expectReply = false): Mention {
  return { type: 'mention', targetId, reason: 'because', expectReply, spaceId: 'spc' }
}

function chain(state: Partial<ChainState> = {}): ChainState {
  return { ...NEW_CHAIN, ...state }
}

const waiter = (entityId: string) => ({ entityId, reason: 'because', spaceId: 'spc' })

// The rows of the table "Chain Rules" in the requirements, except the first, which routing decides (mention-chain.test.ts).
describe('the next turn', () => {
  test('an agent responds with a mention that expects no reply: the mentioned agent runs, and the chain continues from there', () => {
    const { state, next } = afterTurn(chain(), 'a', mention('b'), LIMITS)
    expect(next).toEqual(mention('b'))
    expect(state).toEqual({ depth: 1, replyStack: [], mentionedPairs: ['a->b'] })
  })

  test('an agent responds with a mention that expects a reply: the mentioned agent runs, and the caller waits', () => {
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x')] }), 'a', mention('b', true), LIMITS)
    expect(next).toEqual(mention('b', true))
    expect(state.replyStack).toEqual([waiter('x'), waiter('a')])
  })

  test('an agent responds without a mention: the last waiting agent is called back', () => {
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x'), waiter('y')] }), 'a', null, LIMITS)
    expect(next).toEqual({ type: 'callback', waiter: waiter('y') })
    expect(state.replyStack).toEqual([waiter('x')])
  })

  test('an agent responds without a mention and no agent waits: the chain stops', () => {
    expect(afterTurn(chain(), 'a', null, LIMITS)).toEqual({ state: chain(), next: null })
  })

  test('an agent delegates: the target runs, and an agent that waits for the delegator then waits for the target', () => {
    const delegation: Delegation = { type: 'delegation', targetId: 'b', reason: null, spaceId: 'spc' }
    const { state, next } = afterTurn(chain({ replyStack: [waiter('x')] }), 'a', delegation, LIMITS)
    expect(next).toEqual(delegation)
    expect(state).toEqual(chain({ replyStack: [waiter('x')] }))
    expect(afterTurn(state, 'b', null, LIMITS).next).toEqual({ type: 'callback', waiter: waiter('x') })
  })

  // The rules treat skipping, failing and being stopped alike, because the agent delegates in none of these cases.
  test('an agent skips, fails or is stopped: the last waiting agent is called back; if no agent waits, none responds', () => {
    expect(agentOf(afterTurn(chain({ replyStack: [waiter('x')] }), 'a', null, LIMITS).next ?? mention(''))).toBe('x')
    expect(afterTurn(chain(), 'a', null, LIMITS).next).toBeNull()
  })

  test('a mention that the rules forbid is ignored: the waiting agent is called back', () => {
    const state = chain({ replyStack: [waiter('x')], mentionedPairs: ['b->a'] })
    expect(afterTurn(state, 'a', mention('b', true), LIMITS)).toEqual({
      state: { ...state, replyStack: [] },
      next: { type: 'callback', waiter: waiter('x') },
    })
  })

  test('at the maximum depth no further agent runs, and the stack is cleared', () => {
    const state = chain({ depth: 10, replyStack: [waiter('x'), waiter('y')] })
    for (const handingOn of [
      null,
      mention('b'),
      { type: 'delegation' as const, targetId: 'b', reason: null, spaceId: 'spc' },
    ]) {
      const step = afterTurn(state, 'a', handingOn, LIMITS)
      expect(step).toMatchObject({ next: null, state: { depth: 10, replyStack: [] } })
      expect(step.forbidden).toEqual({ type: 'callback', waiter: waiter('y') })
    }
  })

  test('a turn that cannot be given is revoked: the waiting agent is called back, or the chain is stopped', () => {
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

  test('no circular mention: a may not mention b once b has mentioned a; the opposite direction is allowed again', () => {
    const state = chain({ mentionedPairs: ['b->a'] })
    expect(refuseMention(state, 'a', mention('b'), LIMITS)).toMatchObject({
      code: 'CIRCULAR_MENTION',
      message: expect.stringContaining('already mentioned'),
    })
    expect(codeOf(state, 'b', 'a')).toBeNull()
    expect(codeOf(state, 'a', 'c')).toBeNull()
  })

  test('a call-back is not a mention: the system wakes an agent that was mentioned before', () => {
    const asked = afterTurn(chain(), 'a', mention('b', true), LIMITS).state
    expect(agentOf(afterTurn(asked, 'b', null, LIMITS).next ?? mention(''))).toBe('a')
  })

  const toB = mention('b')
  const delegated = (state: ChainState) => refuseDelegation(state, LIMITS)?.code ?? null

  test('a chain has at most 10 runs, including re-triggers', () => {
    expect(codeOf(chain({ depth: 9 }), 'a', 'b')).toBeNull()
    expect(codeOf(chain({ depth: 10 }), 'a', 'b')).toBe('LOOP_LIMIT')
    expect(delegated(chain({ depth: 9 }))).toBeNull()
    expect(delegated(chain({ depth: 10 }))).toBe('LOOP_LIMIT')
  })

  test('one run is reserved for each call-back, of a new request and of each waiting agent', () => {
    expect(codeOf(chain({ depth: 8 }), 'a', 'b', true)).toBeNull()
    expect(codeOf(chain({ depth: 9 }), 'a', 'b', true)).toBe('LOOP_LIMIT')
    const waited = (depth: number) => chain({ depth, replyStack: [waiter('x'), waiter('y')] })
    expect(codeOf(waited(6), 'a', 'b', true)).toBeNull()
    expect(refuseMention(waited(7), 'a', mention('b', true), LIMITS)?.message).toContain('Mention without expectReply')
    expect(codeOf(waited(7), 'a', 'b')).toBeNull()
    expect(refuseMention(waited(8), 'a', toB, LIMITS)?.message).toContain('Answer with what you have: they receive it.')
    expect(delegated(waited(7))).toBeNull()
    expect(delegated(waited(8))).toBe('LOOP_LIMIT')
  })

  test('the reply stack is limited by the setting; without expectReply the chain may continue', () => {
    const tight = { maxChainDepth: 10, maxReplyStack: 2 }
    const state = chain({ replyStack: [waiter('y'), waiter('z')] })
    expect(refuseMention(state, 'a', mention('b', true), tight)?.code).toBe('REPLY_STACK_FULL')
    expect(refuseMention(state, 'a', toB, tight)).toBeNull()
    expect(refuseMention(chain({ replyStack: [waiter('z')] }), 'a', mention('b', true), tight)).toBeNull()
  })
})

describe('any chain', () => {
  const AGENTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const agent = fc.constantFrom(...AGENTS)
  const mentions = fc.tuple(agent, fc.boolean()).map(([id, expectReply]) => mention(id, expectReply))
  const delegations = agent.map((targetId) => ({ type: 'delegation' as const, targetId, reason: null, spaceId: 'spc' }))

  /** Plays a chain to its end. The turns have these outcomes, one after the other, and then none. */
  function play(turns: (Mention | Delegation | null)[]) {
    const asked: string[] = []
    const called: string[] = []
    let state = chain()
    let holder = 'a'
    for (let runs = 1; ; runs++) {
      const { state: after, next, forbidden } = afterTurn(state, holder, turns[runs - 1] ?? null, LIMITS)
      if (after.replyStack.length > state.replyStack.length) asked.push(holder)
      expect(forbidden).toBeUndefined()
      if (next === null) return { asked, called, runs, stack: after.replyStack }
      holder = agentOf(next)
      if (next.type === 'callback') called.push(holder)
      state = { ...after, depth: after.depth + 1 }
    }
  }

  test('ends within 10 runs with an empty stack, and calls back each requester once', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constant(null), mentions, delegations), { maxLength: 40 }), (turns) => {
        const { asked, called, runs, stack } = play(turns)
        expect(runs).toBeLessThanOrEqual(10)
        expect(stack).toEqual([])
        for (const id of AGENTS) {
          const [calls, questions] = [called, asked].map((ids) => ids.filter((other) => other === id).length)
          expect(calls).toBe(questions)
        }
      }),
    )
  })
})

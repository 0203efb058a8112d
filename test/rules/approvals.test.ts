import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Decision } from '../../src/generated/prisma/client.ts'
import {
  type ApprovalTerms,
  denialOf,
  describeDecisions,
  digestOf,
  expiryOf,
  isApproved,
  isAskedByName,
  mayDecide,
  nextOf,
  type PendingFacts,
  requireCurrentInput,
  requireEditsLeft,
  requireFirstDecision,
  requirePending,
  settlementOf,
  tally,
} from '../../src/rules/approvals.ts'

const TERMS: ApprovalTerms = {
  quorum: 2,
  writtenDigest: digestOf({ amount: 1 }),
  inputSchema: {},
  hidesOutput: false,
  answerMs: null,
  patient: false,
}
const call = (terms: Partial<ApprovalTerms> = {}) => ({ approval: { ...TERMS, ...terms } })

const AT = new Date(0)
function decision(humanId: string, row: Partial<Decision> = {}): Decision {
  return { toolCallId: 'tcl', humanId, inputDigest: 'now', approve: true, reason: null, at: AT, counted: null, ...row }
}

test('a call names its approvers, and once it is escalated, its escalation contacts', () => {
  const named = (escalatedAt: Date | null) =>
    ['hum_a', 'hum_b', 'hum_c'].filter((id) =>
      isAskedByName({ approverIds: ['hum_a'], escalateToIds: ['hum_b'], escalatedAt }, id),
    )
  expect(named(null)).toEqual(['hum_a'])
  expect(named(AT)).toEqual(['hum_a', 'hum_b'])
})

describe('a pending call', () => {
  const facts: PendingFacts = { escalatesAt: null, quorum: 2, asked: 3, count: 3, agreed: 0, hasLeft: false }

  test.each<[string, Partial<PendingFacts>, object]>([
    ['waits while too few have agreed', { agreed: 1 }, { type: 'wait' }],
    ['is approved once enough have agreed', { agreed: 2 }, { type: 'approve' }],
    ['is canceled if its agent has left', { agreed: 2, hasLeft: true }, { refusal: { state: 'CANCELED' } }],
    ['is escalated if too few may decide', { count: 1, escalatesAt: AT }, { type: 'escalate' }],
    ['is not escalated if its agent has left', { count: 1, escalatesAt: AT, hasLeft: true }, { type: 'refuse' }],
    ['expires if too few were asked', { asked: 1, count: 1 }, { refusal: { state: 'EXPIRED' } }],
    ['is refused if too few may read it', { asked: 2, count: 1 }, { refusal: { code: 'CONFIDENTIAL' } }],
  ])('%s', (_, change, expected) => {
    expect(nextOf({ ...facts, ...change })).toMatchObject(expected)
  })

  test('ends or is escalated exactly if too few may decide or the agent has left', () => {
    const numbers = fc.record({
      quorum: fc.integer({ min: 1, max: 5 }),
      asked: fc.nat(5),
      unable: fc.nat(5),
      undecided: fc.nat(5),
      hasLeft: fc.boolean(),
      escalatesAt: fc.constantFrom(null, AT),
    })
    fc.assert(
      fc.property(numbers, ({ quorum, asked, unable, undecided, ...rest }) => {
        const count = Math.max(0, asked - unable)
        const agreed = Math.max(0, count - undecided)
        const { type } = nextOf({ quorum, asked, count, agreed, ...rest })
        expect(type === 'refuse' || type === 'escalate').toBe(rest.hasLeft || count < quorum)
        expect(type === 'approve').toBe(!rest.hasLeft && agreed >= quorum)
      }),
    )
  })

  test.each([
    ['needs no decision', { approvalState: null }, 'needs no decision'],
    ['is decided', { approvalState: 'DENIED' }, 'it is denied'],
    ['has ended', { status: 'CANCELED' }, 'it has ended'],
    ['has expired', { isLate: true }, 'it has expired'],
  ] as const)('cannot be decided on once it %s', (_, change, message) => {
    const pending = { status: 'WAITING', approvalState: 'PENDING', isLate: false } as const
    expect(() => requirePending(pending)).not.toThrow()
    expect(() => requirePending({ ...pending, ...change })).toThrow(message)
  })
})

describe('a decision', () => {
  test('applies to the current input, unless the decision is a denial', () => {
    const edited = { ...call(), inputDigest: 'now' }
    expect(requireCurrentInput(edited, { approve: true, inputDigest: 'now' })).toBe('now')
    expect(requireCurrentInput(edited, { approve: false, inputDigest: 'before' })).toBe('now')
    expect(() => requireCurrentInput(edited, { approve: true, inputDigest: 'before' })).toThrow('has changed')
    expect(() => requireCurrentInput(edited, { approve: true, inputDigest: null })).toThrow('has changed')
    const written = { ...call(), inputDigest: TERMS.writtenDigest }
    expect(requireCurrentInput(written, { approve: true, inputDigest: null })).toBe(TERMS.writtenDigest)
  })

  test('may be given once by each person, and an approval only below the limit', () => {
    expect(() => requireFirstDecision({ count: 99, hasDecided: false }, true)).not.toThrow()
    expect(() => requireFirstDecision({ count: 100, hasDecided: false }, true)).toThrow('100 decisions')
    expect(() => requireFirstDecision({ count: 100, hasDecided: false }, false)).not.toThrow()
    expect(() => requireFirstDecision({ count: 1, hasDecided: true }, false)).toThrow('already decided')
  })

  test('may edit the input 20 times', () => {
    expect(() => requireEditsLeft(call({ edits: 19 }))).not.toThrow()
    expect(() => requireEditsLeft(call({ edits: 20 }))).toThrow('20 times')
  })

  test('approves a call if it is the approval that reaches the quorum', () => {
    expect([0, 1, 2, 3].map((approvals) => isApproved(call(), approvals))).toEqual([false, false, true, true])
    expect(isApproved({ approval: null }, 3)).toBe(false)
  })

  test('counts while the human who decided may decide and the input is the same; once decided, as it was recorded', () => {
    const pending = { approvalState: 'PENDING', inputDigest: 'now' } as const
    const decisions = [
      decision('hum_a'),
      decision('hum_gone'),
      decision('hum_b', { inputDigest: 'before' }),
      decision('hum_a', { counted: false }),
      decision('hum_gone', { counted: true }),
    ]
    const standing = tally(pending, ['hum_a', 'hum_b'], decisions)
    expect(standing.decisions.map(({ counts }) => counts)).toEqual([true, false, false, false, true])
    expect(standing.deciderIds).toEqual(['hum_a', 'hum_b'])
    expect(tally({ ...pending, approvalState: 'APPROVED' }, ['hum_a'], decisions).deciderIds).toEqual([])
  })

  test('is offered to deciders who have not decided on this input', () => {
    const standing = tally(
      { approvalState: 'PENDING', inputDigest: 'now' },
      ['hum_a', 'hum_b', 'hum_c'],
      [decision('hum_a'), decision('hum_b', { inputDigest: 'before' }), decision('hum_c', { counted: false })],
    )
    const able = ['hum_a', 'hum_b', 'hum_c', 'hum_d'].filter((id) => mayDecide({ inputDigest: 'now' }, standing, id))
    expect(able).toEqual(['hum_b', 'hum_c'])
  })
})

describe('the message for the agent', () => {
  test.each([
    [
      denialOf('Alice', 'too "dear"'),
      'FAILED',
      'DENIED',
      'Denied by "Alice": "too \\"dear\\"". The call was not executed.',
    ],
    [denialOf(null, null), 'FAILED', 'DENIED', 'Denied by "somebody". The call was not executed.'],
    [expiryOf(call(), []), 'TIMED_OUT', 'EXPIRED', 'Nobody decided before the deadline.'],
    [
      expiryOf(call(), ['Alice']),
      'TIMED_OUT',
      'EXPIRED',
      'Only "Alice" approved the call, and 2 approvals were needed before the deadline.',
    ],
  ])('gives the reason why a call was refused', (refusal, status, code, message) => {
    const settlement = settlementOf(refusal)
    expect(settlement).toMatchObject({ status, output: { error: { code } } })
    expect(settlement.error).toContain(message)
  })

  test('reports that the result of a call must not reach the approvers', () => {
    const refusal = { state: 'EXPIRED', code: 'CONFIDENTIAL', message: 'no' } as const
    expect(settlementOf(refusal)).toMatchObject({ status: 'FAILED', output: { error: { code: 'CONFIDENTIAL' } } })
  })

  test.each([
    ['APPROVED', { amount: 1 }, 'approved by "Alice" ("fine")'],
    ['APPROVED', { amount: 2 }, 'approved by "Alice" ("fine"), with another input than yours: {"amount":2}'],
    ['DENIED', { amount: 1 }, 'denied by "Bob"'],
    ['EXPIRED', { amount: 1 }, 'expired, approved only by "Alice" ("fine")'],
    ['CANCELED', { amount: 1 }, 'canceled'],
  ] as const)('reports how people decided: %s', (approvalState, input, text) => {
    const decisions = [
      { name: 'Alice', approve: true, reason: 'fine' },
      { name: 'Bob', approve: false, reason: null },
    ]
    expect(describeDecisions({ ...call(), approvalState, input }, decisions)).toBe(text)
  })
})

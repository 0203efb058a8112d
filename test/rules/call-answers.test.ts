import { describe, expect, test } from 'vitest'
import type { ToolCall } from '../../src/generated/prisma/client.ts'
import { ToolExecution } from '../../src/generated/prisma/enums.ts'
import { type CallAnswerer, isAnsweredOutside, mayAnswer, waitsFor } from '../../src/rules/call-answers.ts'

const EXECUTIONS = [...Object.values(ToolExecution), null]

describe('the right to submit the result of a call', () => {
  test.each<[string, CallAnswerer, ToolExecution[]]>([
    ['an admin', { scope: 'ADMIN' }, ['SPACE', 'EXTERNAL']],
    ['a member of its space', { scope: 'HUMAN', isMember: true }, ['SPACE']],
    ['another human', { scope: 'HUMAN', isMember: false }, []],
    ['a service that was granted the agent', { scope: 'SERVICE', isGranted: true }, ['EXTERNAL']],
    ['another service', { scope: 'SERVICE', isGranted: false }, []],
  ])('%s', (_, answerer, answered) => {
    expect(EXECUTIONS.filter((execution) => mayAnswer({ execution }, answerer))).toEqual(answered)
  })

  test('the server executes HTTP, INTERNAL and built-in calls itself', () => {
    expect(EXECUTIONS.filter((execution) => !isAnsweredOutside({ execution }))).toEqual(['HTTP', 'INTERNAL', null])
  })
})

describe('the event that ends the wait of a call', () => {
  const call = { status: 'WAITING', approvalState: null, state: null, settledAt: null } as const
  const wait = { wait: { for: [] } }

  test.each<[string, Partial<Pick<ToolCall, 'status' | 'approvalState' | 'state' | 'settledAt'>>, string | null]>([
    ['without an approval: its result', {}, 'RESULT'],
    ['with a pending approval: a decision', { approvalState: 'PENDING' }, 'DECISION'],
    ['once approved: its result', { approvalState: 'APPROVED' }, 'RESULT'],
    ['while it runs: nothing', { status: 'RUNNING' }, null],
    ['while it runs and its message waits: a message', { status: 'RUNNING', state: wait }, 'MESSAGE'],
    ['once its message was answered: nothing', { status: 'RUNNING', state: wait, settledAt: new Date(0) }, null],
    ['once it is settled: nothing', { status: 'DONE', state: wait }, null],
  ])('%s', (_, change, expected) => {
    expect(waitsFor({ ...call, ...change })).toBe(expected)
  })
})

import { describe, expect, test } from 'vitest'
import { repeatedFailures } from '../../web/talk/repeated-failures.ts'

type Messages = Parameters<typeof repeatedFailures>[0]
const message = (id: string, kind: 'HUMAN' | 'AGENT', failed: [agent: string, error: string][]): Messages[number] => ({
  id,
  sender: { kind },
  outcomes: failed.map(([agent, error]) => ({ kind: 'FAILED', agent: { id: agent }, error })),
})
const repeatedIn = (...messages: Messages) => Object.fromEntries(repeatedFailures(messages))

describe('a failure of an agent is shown in full', () => {
  const key: [string, string] = ['rosa', 'wrong key']

  test('at the newest message of a person', () => {
    const [first, second] = [message('first', 'HUMAN', [key]), message('second', 'HUMAN', [key])]
    expect(repeatedIn(first, second)).toEqual({ first: 'rosa' })
  })

  test('at the message of the person rather than at the answers of other agents', () => {
    const [asked, answer] = [message('asked', 'HUMAN', [key]), message('answer', 'AGENT', [key])]
    const later = message('later', 'AGENT', [key])
    expect(repeatedIn(asked, answer, later)).toEqual({ answer: 'rosa', later: 'rosa' })
  })

  test('at the answer, if the agent did not fail at the message of the person before it', () => {
    const [old, asked] = [message('old', 'HUMAN', [key]), message('asked', 'HUMAN', [])]
    const [answer, later] = [message('answer', 'AGENT', [key]), message('later', 'AGENT', [key])]
    expect(repeatedIn(old, asked, answer, later)).toEqual({ old: 'rosa', answer: 'rosa' })
    expect(repeatedIn(answer, later)).toEqual({ answer: 'rosa' })
  })

  test('for each agent and each error', () => {
    const first = message('first', 'HUMAN', [key, ['tom', 'wrong key']])
    expect(
      repeatedIn(
        first,
        message('second', 'HUMAN', [
          ['rosa', 'no model'],
          ['tom', 'wrong key'],
        ]),
      ),
    ).toEqual({
      first: 'tom',
    })
  })
})

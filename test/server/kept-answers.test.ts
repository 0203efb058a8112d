import { describe, expect, test, vi } from 'vitest'
import type { SizedEntry } from '../../src/realtime/event-log.ts'
import type { Answer } from '../../src/server/streams/answer.ts'
import { AnsweredEntries } from '../../src/server/streams/answered-entries.ts'
import type { LiveRules } from '../../src/server/streams/feed.ts'
import { answersOfField } from '../support/field-answers.ts'

const MEBI = 1024 * 1024

function entries(count: number): SizedEntry[] {
  return Array.from({ length: count }, (_, n) => ({
    n: n + 1,
    bytes: 20,
    entry: { cursor: `c${n + 1}`, at: 0, event: { type: 'Told' } },
  }))
}

describe('what is kept of answers is bounded by what they weigh, not by what their entries do', () => {
  test('who lags further behind than that asks for itself', async () => {
    const all = entries(10)
    const answered = new AnsweredEntries({
      answers: {
        answer: () =>
          ({ text: 'x'.repeat(MEBI), errors: [], hasData: true, asOf: { from: 0, to: 0 } }) satisfies Answer,
      },
      window: {
        ahead: ({ n }) => all.filter((one) => one.n > n),
        isLost: () => false,
        skip: () => {},
        offer: () => {},
        listen: () => () => {},
      },
      rules: { eventOf: ({ event }) => event, isSpecial: () => false, concerns: () => false } as LiveRules<object>,
      after: 0,
      viewers: () => [],
      isNeeded: () => true,
      onLost: () => {},
      onAnswered: () => {},
    })
    await answered.catchUp()
    expect(answered.portionAt({ n: 0 })).toBeNull()
    for (const n of [6, 7, 8, 9]) {
      expect(answered.portionAt({ n })).toMatchObject({ type: 'common', to: n + 1, answers: { length: 1 } })
    }
    answered.forget(10, 10)
    expect(answered.portionAt({ n: 6 })).toBeNull()
  })

  test('an answer is given again until too much has come after it', async () => {
    const size = 2 * MEBI
    const tell = vi.fn(() => 'x'.repeat(size))
    const answers = answersOfField('text', { scope: 'HUMAN', id: 'hum_1', tokenId: null, expiresAt: null })
    const [first, ...others] = entries(9).map(({ entry }) => entry)
    const ask = (of = first!) => answers.answer({ event: { text: tell }, of }, () => [], 0)
    await ask()
    await ask()
    expect(tell).toHaveBeenCalledTimes(1)
    for (const other of others) await ask(other)
    await ask(others.at(-1))
    expect(tell).toHaveBeenCalledTimes(9)
    await ask()
    expect(tell).toHaveBeenCalledTimes(10)
  })
})

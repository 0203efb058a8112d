import { describe, expect, test, vi } from 'vitest'
import type { SizedPublication } from '../../src/broker/log.ts'
import type { Answer } from '../../src/delivery/answer.ts'
import type { HubRules } from '../../src/delivery/feed.ts'
import { AnsweredPublications } from '../../src/delivery/hub.ts'
import { answersOfField } from '../support/field-answers.ts'

const MEBI = 1024 * 1024

function entries(count: number): SizedPublication[] {
  return Array.from({ length: count }, (_, n) => ({
    offset: n + 1,
    bytes: 20,
    publication: { cursor: `c${n + 1}`, at: 0, event: { type: 'Told' } },
  }))
}

describe('the cache of payloads is bounded by their own size, not by that of the log entries', () => {
  test('a subscriber that lags beyond it executes its own operation', async () => {
    const all = entries(10)
    const answered = new AnsweredPublications({
      answers: {
        answer: () =>
          ({ text: 'x'.repeat(MEBI), errors: [], hasData: true, versions: { from: 0, to: 0 } }) satisfies Answer,
      },
      window: {
        publicationsAfter: ({ offset }) => all.filter((one) => one.offset > offset),
        isLost: () => false,
        cursorOf: () => '',
        advance: () => {},
        offer: () => {},
        listen: () => () => {},
      },
      rules: { eventOf: ({ event }) => event, mayNeedFeed: () => false, needsFeed: () => false } as HubRules<object>,
      after: 0,
      viewers: () => [],
      isNeeded: () => true,
      onLost: () => {},
      onAnswered: () => {},
    })
    await answered.catchUp()
    expect(answered.batchAt({ offset: 0 })).toBeNull()
    for (const n of [6, 7, 8, 9]) {
      expect(answered.batchAt({ offset: n })).toMatchObject({ type: 'shared', to: n + 1, answers: { length: 1 } })
    }
    answered.forget(10, 10)
    expect(answered.batchAt({ offset: 6 })).toBeNull()
  })

  test('a payload is reused until too many entries have followed', async () => {
    const size = 2 * MEBI
    const tell = vi.fn(() => 'x'.repeat(size))
    const answers = answersOfField('text', { scope: 'HUMAN', id: 'hum_1', tokenId: null, expiresAt: null })
    const [first, ...others] = entries(9).map(({ publication }) => publication)
    const ask = (of = first!) => answers.answer({ event: { text: tell }, shareKey: of }, () => [], 0)
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

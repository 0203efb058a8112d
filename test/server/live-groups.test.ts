import { setImmediate } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { EntryWindow } from '../../src/realtime/entry-window.ts'
import type { LogEvent } from '../../src/realtime/event-log.ts'
import { createWriteSchedule } from '../../src/server/sockets/write-schedule.ts'
import type { Answer } from '../../src/server/streams/answer.ts'
import type { Answers } from '../../src/server/streams/answers.ts'
import { createLiveGroups } from '../../src/server/streams/live-groups.ts'
import { until } from '../support/until.ts'

/** More than are served in one slice. */
const SUBSCRIBERS = 600

/** What every event comes to: one answer for all, or one for each viewer. */
const ANSWERS = { common: (answer: Answer) => answer, personal: (answer: Answer) => new Map([['v t', answer]]) }

/** A way out that is busy from each answer to the end of the tick. */
function createSink() {
  const listeners = new Set<() => void>()
  let isBusy = false
  const got: string[] = []
  return {
    got,
    send(answers: readonly Answer[]) {
      got.push(...answers.map(({ text }) => text))
      isBusy = true
      process.nextTick(() => {
        isBusy = false
        for (const listener of listeners) listener()
      })
    },
    isBusy: () => isBusy,
    whenReady(listener: () => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

test.for(['common', 'personal'] as const)(
  'an event that comes between two slices reaches those who took nothing more when the first passed (%s)',
  async (kind) => {
    const groups = createLiveGroups(createWriteSchedule(), new Registry())
    const window = new EntryWindow({ epoch: '0'.repeat(16), n: 0 }, 'needed')
    const answers = {
      answer: ({ event }: { event: { n: number } }) =>
        ANSWERS[kind]({ text: `${event.n}`, errors: [], hasData: true, asOf: { from: 0, to: 0 } } as unknown as Answer),
      pace: () => undefined,
    } as unknown as Answers
    const rules = { eventOf: ({ event }: { event: object }) => event, isSpecial: () => false, concerns: () => false }
    const viewer = { id: 'v', tokenId: 't' }
    const end = new AbortController()
    let left = 0
    const sinks = Array.from({ length: SUBSCRIBERS }, createSink)
    for (const sink of sinks) {
      const seat = window.sit(window.end)!
      window.take(seat)
      const subscriber = { answers, viewer, sink, window, seat, rules, known: 0 }
      void groups.sit(subscriber as never, end.signal).then(() => {
        left += 1
      })
    }
    const push = (n: number) =>
      window.push([{ n, bytes: 10, entry: { cursor: '', at: Date.now(), event: { n } as unknown as LogEvent } }])
    push(1)
    const served = () => sinks.filter(({ got }) => got.length > 0).length
    while (served() === 0) await new Promise(process.nextTick)
    expect(served()).toBeLessThan(SUBSCRIBERS)
    push(2)
    await until('the round is over', () => served() === SUBSCRIBERS)
    await until('everybody has both', () => sinks.every(({ got }) => got.join() === '1,2'))
    await setImmediate()
    expect(left).toBe(0)
    end.abort()
  },
)

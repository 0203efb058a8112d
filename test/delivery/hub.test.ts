import { setImmediate } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { LogEvent } from '../../src/broker/log.ts'
import { PublicationWindow } from '../../src/broker/window.ts'
import type { Answer } from '../../src/delivery/answer.ts'
import type { Answers } from '../../src/delivery/answers.ts'
import { createHub } from '../../src/delivery/hub.ts'
import { until } from '../support/until.ts'

/** More subscribers than one slice serves. */
const SUBSCRIBERS = 600

/** Whether one payload is for all subscribers, or each viewer has its own. */
const ANSWERS = { shared: (answer: Answer) => answer, personal: (answer: Answer) => new Map([['v t', answer]]) }

/** Creates a connection that is busy from each payload to the end of the tick. */
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

test.for(['shared', 'personal'] as const)(
  'an event between two slices reaches the subscribers that had no more to read during the first (%s)',
  async (kind) => {
    const hub = createHub(new Registry())
    const window = new PublicationWindow({ epoch: '0'.repeat(16), offset: 0 }, 'needed')
    const answers = {
      answer: ({ event }: { event: { n: number } }) =>
        ANSWERS[kind]({
          text: `${event.n}`,
          errors: [],
          hasData: true,
          versions: { from: 0, to: 0 },
        } as unknown as Answer),
      pace: () => undefined,
    } as unknown as Answers
    const rules = { eventOf: ({ event }: { event: object }) => event, mayNeedFeed: () => false, needsFeed: () => false }
    const viewer = { id: 'v', tokenId: 't' }
    const end = new AbortController()
    let left = 0
    const sinks = Array.from({ length: SUBSCRIBERS }, createSink)
    for (const sink of sinks) {
      const position = window.attach(window.end)!
      window.take(position)
      const subscriber = { answers, viewer, sink, window, position, rules, readVersion: 0 }
      void hub.attach(subscriber as never, end.signal).then(() => {
        left += 1
      })
    }
    const push = (n: number) =>
      window.push([
        { offset: n, bytes: 10, publication: { cursor: '', at: Date.now(), event: { n } as unknown as LogEvent } },
      ])
    push(1)
    const served = () => sinks.filter(({ got }) => got.length > 0).length
    while (served() === 0) await new Promise(process.nextTick)
    expect(served()).toBeLessThan(SUBSCRIBERS)
    push(2)
    await until('the tick is over', () => served() === SUBSCRIBERS)
    await until('everybody has both', () => sinks.every(({ got }) => got.join() === '1,2'))
    await setImmediate()
    expect(left).toBe(0)
    end.abort()
  },
)

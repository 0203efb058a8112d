import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Signals } from '../../src/broker/signals.ts'
import type { SignalPayload } from '../../src/broker/topics.ts'
import { until } from '../support/until.ts'

const LAST = { type: 'changed', entityId: 'the last' } as const
const isLast = (payload: SignalPayload) => 'entityId' in payload && payload.entityId === LAST.entityId

/** The tests that every implementation of signals must pass. `open` returns a new instance. */
export function describeSignals(name: string, open: () => Promise<Signals>): void {
  describe(`${name}: signals`, () => {
    let signals: Signals

    beforeEach(async () => {
      signals = await open()
    })
    afterEach(() => signals.close())

    /** Subscribes, and records the signals. */
    async function listen(channel: string): Promise<{ heard: SignalPayload[]; stop: () => void }> {
      const heard: SignalPayload[] = []
      const stop = await signals.subscribe(channel, (payload) => {
        if (!isLast(payload)) heard.push(payload)
      })
      return { heard, stop }
    }

    /** Resolves once everything that was published to these channels before has arrived. Each channel keeps its order. */
    async function settled(...channels: string[]): Promise<void> {
      for (const channel of channels) {
        let arrived = false
        const stop = await signals.subscribe(channel, (payload) => {
          arrived ||= isLast(payload)
        })
        await signals.publish(channel, LAST)
        await until('the published signals have arrived', () => arrived)
        stop()
      }
    }

    test('reach every listener of the channel, in order, and no others', async () => {
      const [one, two, other] = [await listen('run:1'), await listen('run:1'), await listen('run:2')]
      await signals.publish('run:1', { type: 'stop', runId: 'run_1' })
      await signals.publish('run:1', { type: 'read', spaceId: 'spc_ü"1' })
      await settled('run:1', 'run:2')
      const expected = [
        { type: 'stop', runId: 'run_1' },
        { type: 'read', spaceId: 'spc_ü"1' },
      ]
      expect([one.heard, two.heard, other.heard]).toEqual([expected, expected, []])
    })

    test('a listener that has left is not called, and the others are', async () => {
      const [one, two] = [await listen('jobs'), await listen('jobs')]
      one.stop()
      one.stop()
      await signals.publish('jobs', {})
      await settled('jobs')
      expect([one.heard, two.heard]).toEqual([[], [{}]])
    })

    test('a channel can be left and rejoined at once', async () => {
      for (let round = 0; round < 50; round += 1) {
        const { heard, stop } = await listen('jobs')
        await signals.publish('jobs', {})
        await until('the signal is received', () => heard.length === 1)
        stop()
      }
    })

    test('many listeners that join one channel at once all receive the signal', async () => {
      const all = await Promise.all(Array.from({ length: 20 }, () => listen('jobs')))
      await signals.publish('jobs', {})
      await settled('jobs')
      expect(all.map(({ heard }) => heard.length)).toEqual(Array(20).fill(1))
    })

    test('a listener that throws does not affect others', async () => {
      await signals.subscribe('jobs', () => {
        throw new Error('a fault of the listener')
      })
      const { heard } = await listen('jobs')
      await signals.publish('jobs', {})
      await settled('jobs')
      expect(heard).toEqual([{}])
    })

    test('listeners may leave, and remove others, while they are called', async () => {
      const all: { heard: SignalPayload[]; stop: () => void }[] = []
      await signals.subscribe('jobs', () => {
        for (const { stop } of all) stop()
      })
      all.push(await listen('jobs'), await listen('jobs'))
      await signals.publish('jobs', {})
      await settled('jobs')
      await signals.publish('jobs', {})
      await settled('jobs')
      expect(all.every(({ heard }) => heard.length <= 1)).toBe(true)
    })

    test('publishing without listeners, and after the end, does not throw', async () => {
      await signals.publish('token:nobody', { type: 'revoked' })
      await signals.close()
      await signals.publish('token:nobody', { type: 'revoked' })
    })
  })
}

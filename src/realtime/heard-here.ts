import { randomUUID } from 'node:crypto'
import type { Signals } from './signals.ts'
import type { SignalPayload } from './topics.ts'

/**
 * Wraps signals so that listeners in this process receive one channel directly, without the way through
 * Redis, and do not receive the signal again when Redis returns it. Other processes receive it as usual. `by`
 * identifies the publishing process.
 */
export function heardHere(signals: Signals, channel: string): Signals {
  const by = randomUUID()
  const listeners = new Set<(payload: SignalPayload) => void>()
  const isOurs = (payload: SignalPayload) => payload.type === undefined && payload.by === by

  return {
    ...signals,
    async publish(to, payload, beside) {
      if (to !== channel) return signals.publish(to, payload, beside)
      const listening = [...listeners]
      queueMicrotask(() => {
        for (const listener of listening) listener(payload)
      })
      await signals.publish(to, { by, ...payload } as SignalPayload, beside)
    },
    async subscribe(to, listener) {
      if (to !== channel) return signals.subscribe(to, listener)
      const stop = await signals.subscribe(to, (payload) => {
        if (!isOurs(payload)) listener(payload)
      })
      const own = (payload: SignalPayload) => listener(payload)
      listeners.add(own)
      return () => {
        listeners.delete(own)
        stop()
      }
    },
  }
}

import { randomUUID } from 'node:crypto'
import type { SignalPayload } from './topics.ts'

/**
 * Ephemeral messages to the current listeners in all processes. A signal is delivered at most once and never
 * stored. Listeners must therefore be able to find missed changes in the database.
 */
export interface Signals {
  /**
   * Resolves at once and never throws. A signal that cannot be sent within about 5 s is lost, and the loss is
   * logged. Signals from one process to one channel keep their order while the connection lasts. `beside`: an event
   * log topic to which the caller appends in the same tick. If possible, the signal is sent in the same batch, and
   * is buffered with the batch while Redis is unreachable.
   */
  publish(channel: string, payload: SignalPayload, beside?: string): Promise<void>
  /**
   * Resolves when the subscription is active, so that every signal published later arrives. While Redis is
   * unreachable, the promise stays pending. It rejects only if the connection is closed. Returns a function that
   * ends the subscription. After this function was called, the listener is not called again.
   */
  subscribe(channel: string, listener: (payload: SignalPayload) => void): Promise<() => void>
  /**
   * Calls the listener when a lost connection and all its subscriptions have been restored. Signals may have been
   * lost, so the listener must check the database.
   */
  onReconnect(listener: () => void): () => void
  close(): Promise<void>
}

/**
 * Wraps signals. For one channel, listeners in the publishing process are called directly, and not again when Redis
 * delivers the signal. Other processes receive the signal as usual. `by` identifies the publishing process.
 */
export function deliverLocally(signals: Signals, channel: string): Signals {
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

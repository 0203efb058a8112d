import { messageOf } from '../../lib/errors.ts'
import { asOwnWork } from '../../lib/requester-context.ts'
import type { BrokerLogger } from '../logger.ts'
import type { Signals } from '../signals.ts'
import type { SignalPayload } from '../topics.ts'

/**
 * Signals within one process. Listeners are called after `publish` has returned, as they are for signals from
 * another process.
 */
export function createMemorySignals(logger: BrokerLogger): Signals {
  const listeners = new Map<string, Set<(payload: SignalPayload) => void>>()

  function deliver(channel: string, json: string): void {
    for (const listener of listeners.get(channel) ?? []) {
      try {
        listener(JSON.parse(json) as SignalPayload)
      } catch (error) {
        logger.warn({ channel, error: messageOf(error) }, 'a signal listener failed')
      }
    }
  }

  return {
    async publish(channel, payload) {
      if (!listeners.has(channel)) return
      const json = JSON.stringify(payload)
      // The listeners' work must not be charged to the requester who publishes.
      queueMicrotask(() => asOwnWork(() => deliver(channel, json)))
    },
    async subscribe(channel, listener) {
      const own = (payload: SignalPayload) => listener(payload)
      listeners.set(channel, (listeners.get(channel) ?? new Set()).add(own))
      return () => {
        const left = listeners.get(channel)
        left?.delete(own)
        if (left?.size === 0) listeners.delete(channel)
      }
    },
    onReconnect: () => () => {},
    async close() {
      listeners.clear()
    },
  }
}

import type { AdminViewer } from '../../src/access/viewer.ts'
import type { Subscriber } from '../../src/server/sharing/audience.ts'

export const VIEWER: AdminViewer = { scope: 'ADMIN', id: 'tok_1', tokenId: 'tok_1', expiresAt: null }

/** A subscriber that notes what it is sent and what ends it, and leaves then; its client takes everything at once. */
export function notingSubscriber(leave: (subscriber: Subscriber) => void, onSent = (_sent: readonly string[]) => {}) {
  const sent: string[] = []
  const ended: unknown[] = []
  const subscriber: Subscriber = {
    viewer: VIEWER,
    head: '',
    outlet: {
      send: () => {},
      sendAll(_, texts) {
        sent.push(...texts)
        onSent(sent)
      },
      waiting: () => 0,
      isOpen: () => true,
      drained: async () => {},
      flush: () => {},
      giveUp: () => {},
    },
    end(error) {
      ended.push(error)
      leave(subscriber)
    },
  }
  return { subscriber, sent, ended }
}

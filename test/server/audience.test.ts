import { describe, expect, test } from 'vitest'
import type { AdminViewer } from '../../src/access/viewer.ts'
import { ForbiddenError } from '../../src/lib/errors.ts'
import type { Answers } from '../../src/server/sharing/answering.ts'
import { createAudience, type Subscriber } from '../../src/server/sharing/audience.ts'
import { createRounds } from '../../src/server/sharing/rounds.ts'

const viewer: AdminViewer = { scope: 'ADMIN', id: 'tok_1', tokenId: 'tok_1', expiresAt: null }
const at = (n: number) => ({ epoch: 'e', n })

/** An audience, and a subscriber that notes what it is sent. */
function setUp() {
  const audience = createAudience(createRounds())
  const sent: string[] = []
  const ended: unknown[] = []
  const subscriber: Subscriber = {
    viewer,
    head: '',
    outlet: {
      send: () => {},
      sendAll: (_, texts) => sent.push(...texts),
      waiting: () => 0,
      isOpen: () => true,
      drained: async () => {},
      flush: () => {},
      giveUp: () => {},
    },
    end(error) {
      ended.push(error)
      audience.leave(subscriber)
    },
  }
  const tell = (n: number, answers: Answers = String(n)) => {
    audience.tell({ position: at(n), answers })
    audience.flush()
  }
  return { audience, subscriber, sent, ended, tell }
}

describe('an audience', () => {
  test('tells who has read ahead of it nothing twice, in however many rounds it comes to that place', () => {
    const { audience, subscriber, sent, tell } = setUp()
    audience.join(subscriber, at(3))
    for (const n of [1, 2, 3, 4, 5]) tell(n)
    expect(sent).toEqual(['4', '5'])
  })

  test('keeps nothing of a subscriber that an event has refused', () => {
    const { audience, subscriber, sent, ended, tell } = setUp()
    const refusal = new ForbiddenError('You may not see this.')
    audience.join(subscriber, at(0))
    tell(1, new Map([[`${viewer.id} ${viewer.tokenId}`, refusal]]))
    tell(2)
    expect(ended).toEqual([refusal])
    expect(sent).toEqual([])
    expect(audience.members()).toEqual([])
  })
})

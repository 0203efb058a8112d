import { describe, expect, test } from 'vitest'
import { ForbiddenError } from '../../src/lib/errors.ts'
import type { Answers } from '../../src/server/sharing/answering.ts'
import { createAudience } from '../../src/server/sharing/audience.ts'
import { createRounds } from '../../src/server/sharing/rounds.ts'
import { notingSubscriber, VIEWER } from '../support/subscriber.ts'

const at = (n: number) => ({ epoch: 'e', n })

/** An audience, and a subscriber that notes what it is sent. */
function setUp() {
  const audience = createAudience(createRounds())
  const { subscriber, sent, ended } = notingSubscriber(audience.leave)
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
    tell(1, new Map([[`${VIEWER.id} ${VIEWER.tokenId}`, refusal]]))
    tell(2)
    expect(ended).toEqual([refusal])
    expect(sent).toEqual([])
    expect(audience.members()).toEqual([])
  })
})

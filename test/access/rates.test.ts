import { describe, expect, test, vi } from 'vitest'
import { createRates } from '../../src/access/rates.ts'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RateLimitedError } from '../../src/lib/errors.ts'

const viewer: HumanViewer = { scope: 'HUMAN', id: 'hum_1', tokenId: null, expiresAt: null }
const createSpentRates = async () => {
  const rates = createRates({ messages: 0, triggers: 0, requests: 1 }, null)
  await rates.take('requests', viewer)
  return rates
}

describe('requests that wait for their turn', () => {
  test('stop waiting when their client has gone', async () => {
    const rates = await createSpentRates()
    const gone = new AbortController()
    const waiting = rates.takeInTurn('requests', viewer, 1, { longestMs: 120_000, signal: gone.signal })
    gone.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
  })

  test('are at most 500 of one viewer, and fewer again once some have stopped', async () => {
    const rates = await createSpentRates()
    const gone = new AbortController()
    const how = { longestMs: 120_000, signal: gone.signal }
    const waiting = Array.from({ length: 500 }, () => rates.takeInTurn('requests', viewer, 1, how))
    const settled = Promise.allSettled(waiting)
    await vi.waitFor(async () => {
      await expect(rates.takeInTurn('requests', viewer, 1, { longestMs: 120_000 })).rejects.toThrow(RateLimitedError)
    })
    gone.abort(new Error('gone'))
    expect((await settled).every((one) => one.status === 'rejected' && one.reason.message === 'gone')).toBe(true)
    const again = new AbortController()
    const next = rates.takeInTurn('requests', viewer, 1, { longestMs: 120_000, signal: again.signal })
    again.abort(new Error('waited'))
    await expect(next).rejects.toThrow('waited')
  })
})

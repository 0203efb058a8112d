import { expect, test } from 'vitest'
import { createLifeline } from '../../src/delivery/feed.ts'
import { createChannelSet } from '../../src/delivery/feeds/channel-set.ts'

test('a subscriber leaves its channels if one of them could not be joined', async () => {
  const lifeline = createLifeline()
  const opened = Promise.withResolvers<void>()
  let left = 0
  const set = createChannelSet(
    lifeline,
    async () => ['slow', 'broken'],
    async (id) => {
      if (id === 'broken') throw new Error('it is broken')
      await opened.promise
      return () => {
        left += 1
      }
    },
  )
  await expect(set.refresh()).rejects.toThrow('it is broken')
  lifeline.end()
  opened.resolve()
  await new Promise((resolve) => setImmediate(resolve))
  expect(left).toBe(1)
})

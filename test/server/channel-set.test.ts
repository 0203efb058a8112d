import { expect, test } from 'vitest'
import { createChannelSet } from '../../src/server/streams/channel-set.ts'
import { createLifeline } from '../../src/server/streams/lifeline.ts'

test('what a subscriber listens to is left where something else of it could not be listened to', async () => {
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

import { pino } from 'pino'
import { expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { deliverLocally, type Signals } from '../../src/broker/signals.ts'

/** Creates two processes that share a fake Redis, which delivers its signals when the test tells it to. */
function twoProcesses() {
  const shared = createMemorySignals(pino({ level: 'silent' }))
  const held: (() => Promise<void>)[] = []
  const slow: Signals = {
    ...shared,
    async publish(channel, payload) {
      held.push(() => shared.publish(channel, payload))
    },
  }
  const deliver = async () => {
    for (const give of held.splice(0)) await give()
    await Promise.resolve()
  }
  return { here: deliverLocally(slow, 'jobs'), there: deliverLocally(slow, 'jobs'), deliver }
}

async function heardBy(signals: Signals, channel: string) {
  const heard: unknown[] = []
  const stop = await signals.subscribe(channel, (payload) => heard.push(payload))
  return { heard, stop }
}

test('the publisher receives its signal at once and only once; all others receive it when Redis returns it', async () => {
  const { here, there, deliver } = twoProcesses()
  const own = await heardBy(here, 'jobs')
  const other = await heardBy(there, 'jobs')
  await here.publish('jobs', {})
  expect([own.heard.length, other.heard.length]).toEqual([1, 0])
  await deliver()
  expect([own.heard.length, other.heard.length]).toEqual([1, 1])
})

test('another channel goes through Redis as usual', async () => {
  const { here, deliver } = twoProcesses()
  const { heard } = await heardBy(here, 'space:1')
  await here.publish('space:1', { type: 'message' })
  expect(heard).toEqual([])
  await deliver()
  expect(heard).toEqual([{ type: 'message' }])
})

test('a removed listener receives nothing', async () => {
  const { here, there, deliver } = twoProcesses()
  const { heard, stop } = await heardBy(here, 'jobs')
  stop()
  await here.publish('jobs', {})
  await there.publish('jobs', {})
  await deliver()
  expect(heard).toEqual([])
})

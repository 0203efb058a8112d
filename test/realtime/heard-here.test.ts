import { pino } from 'pino'
import { expect, test } from 'vitest'
import { heardHere } from '../../src/realtime/heard-here.ts'
import { createInProcessSignals } from '../../src/realtime/in-process-signals.ts'
import type { Signals } from '../../src/realtime/signals.ts'

/** Two processes that share what stands for Redis, which gives on what it was given when it is asked to. */
function twoProcesses() {
  const shared = createInProcessSignals(pino({ level: 'silent' }))
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
  return { here: heardHere(slow, 'jobs'), there: heardHere(slow, 'jobs'), deliver }
}

async function heardBy(signals: Signals, channel: string) {
  const heard: unknown[] = []
  const stop = await signals.subscribe(channel, (payload) => heard.push(payload))
  return { heard, stop }
}

test('who published it hears it at once and only once, all others when it has gone round', async () => {
  const { here, there, deliver } = twoProcesses()
  const own = await heardBy(here, 'jobs')
  const other = await heardBy(there, 'jobs')
  await here.publish('jobs', {})
  expect([own.heard.length, other.heard.length]).toEqual([1, 0])
  await deliver()
  expect([own.heard.length, other.heard.length]).toEqual([1, 1])
})

test('another channel goes round as ever', async () => {
  const { here, deliver } = twoProcesses()
  const { heard } = await heardBy(here, 'space:1')
  await here.publish('space:1', { type: 'message' })
  expect(heard).toEqual([])
  await deliver()
  expect(heard).toEqual([{ type: 'message' }])
})

test('who has ceased to listen hears nothing', async () => {
  const { here, there, deliver } = twoProcesses()
  const { heard, stop } = await heardBy(here, 'jobs')
  stop()
  await here.publish('jobs', {})
  await there.publish('jobs', {})
  await deliver()
  expect(heard).toEqual([])
})

import pino from 'pino'
import { expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { RUNS_CHANNEL } from '../../src/broker/topics.ts'
import { createStopSignals } from '../../src/runs/stop-signal.ts'
import { until } from '../support/until.ts'

test('a stopped run aborts everything in the process that works for it, even after one of these has ended', async () => {
  const signals = createMemorySignals(pino({ level: 'silent' }))
  const stopSignals = createStopSignals(signals)
  await stopSignals.subscribe()
  const stopped: string[] = []
  stopSignals.listen('run_1', () => stopped.push('the worker of the run'))
  stopSignals.listen('run_1', () => stopped.push('one approved call'))
  const end = stopSignals.listen('run_1', () => stopped.push('another approved call, which has ended'))
  end()
  await stopSignals.stop('run_1', async () => ({ leaseUntil: null }))
  expect(stopped).toEqual(['the worker of the run', 'one approved call'])
})

test('everyone who stops a run waits until its worker has confirmed', async () => {
  const signals = createMemorySignals(pino({ level: 'silent' }))
  const stopSignals = createStopSignals(signals)
  const returned: number[] = []
  // Later than any confirmation, so that a stop that misses the confirmation waits for its time limit.
  const run = { leaseUntil: new Date(Date.now() + 60_000) }
  const stops = [1, 2].map((n) => stopSignals.stop('run_1', async () => run).then(() => returned.push(n)))
  const asked: unknown[] = []
  await signals.subscribe(RUNS_CHANNEL, (signal) => asked.push(signal))
  await until('both stops are announced', () => asked.length === 2)
  await stopSignals.confirm('run_1')
  await until('both return', () => returned.length === 2, { timeoutMs: 500 })
  await Promise.all(stops)
})

import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { EventLog } from '../../src/realtime/event-log.ts'
import { createInProcessEventLog } from '../../src/realtime/in-process-event-log.ts'
import { createRealtime, type Realtime } from '../../src/realtime/realtime.ts'
import { startTextReader, type TextReader } from '../support/log-follower.ts'
import { runsOf } from '../support/nightly.ts'
import { openTestRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

type Step =
  | { type: 'write'; delta: string; waits: boolean }
  | { type: 'other' }
  | { type: 'join' }
  | { type: 'disconnect'; reader: number }
  | { type: 'connect'; reader: number }
  | { type: 'fault' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('write' as const),
      delta: fc.string({ unit: 'binary' }),
      waits: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('other' as const) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('join' as const) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('disconnect' as const), reader: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('connect' as const), reader: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('fault' as const) }) },
)

let topics = 0

/**
 * Whatever is written, by whoever leaves and comes back when: every reader ends with the text that was written. Where
 * nothing is lost on the way, none meets a delta beyond what it knows; a loss between a head and the snapshot that
 * follows on it may show one, until the gap that a loss always is.
 */
async function holds(
  writer: EventLog,
  readersLog: EventLog,
  steps: Step[],
  fault: (() => Promise<void>) | null,
): Promise<void> {
  topics += 1
  const topic = `space:${topics}`
  const messageId = `msg_${topics}`
  const readers: (TextReader & { connected: boolean })[] = []
  const writing: Promise<unknown>[] = []
  let text = ''

  async function take(step: Step): Promise<void> {
    const reader = 'reader' in step ? readers[step.reader] : undefined
    if (step.type === 'write') {
      const offset = text.length
      text += step.delta
      const appended = writer.appendDelta(topic, { messageId, partIndex: 0, offset, delta: step.delta }, () => text)
      writing.push(appended)
      if (step.waits) await appended
    } else if (step.type === 'other') writing.push(writer.append(topic, { type: 'SpaceUpdated' }))
    else if (step.type === 'fault') await fault?.()
    else if (step.type === 'join' && readers.length < 4) {
      readers.push({ ...startTextReader(readersLog, topic, messageId), connected: true })
    } else if (step.type === 'disconnect' && reader?.connected) {
      reader.connected = false
      await reader.disconnect()
    } else if (step.type === 'connect' && reader && !reader.connected) {
      reader.connected = true
      reader.connect()
    }
  }

  for (const each of steps) await take(each)
  await Promise.all(writing)
  for (const reader of readers) if (!reader.connected) reader.connect()
  for (const reader of readers) await until('a reader has the whole text', () => reader.text() === text)
  await Promise.all(readers.map((reader) => reader.disconnect()))
  expect(readers.map((reader) => reader.fault.error)).toEqual(readers.map(() => undefined))
  if (fault === null) expect(readers.flatMap(({ holes }) => holes)).toEqual([])
  expect((await writer.drafts(topic, [messageId])).get(messageId)?.get(0) ?? '').toBe(text)
}

describe('a message is rebuilt from what is followed', () => {
  test('in process', async () => {
    const log = createInProcessEventLog()
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), (steps) => holds(log, log, steps, null))
    await fc.assert(property, { numRuns: runsOf({ usual: 60, nightly: 1000 }) })
    expect(log.stats()).toEqual({ topics: 0, followers: 0 })
  })
})

const redis = await openTestRedis()

describe.skipIf(redis === null)('a message is rebuilt from what is followed', () => {
  const opened: Realtime[] = []
  const open = async () => {
    const realtime = await createRealtime({ redisUrl: redis!.url, prefix: redis!.prefix })
    opened.push(realtime)
    return realtime.log
  }
  afterAll(async () => {
    await Promise.all(opened.map(({ close }) => close()))
    await redis!.release()
  })

  test('over Redis, by another process', async () => {
    const [writer, reader] = [await open(), await open()]
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), (steps) => holds(writer, reader, steps, null))
    await fc.assert(property, { numRuns: runsOf({ usual: 20, nightly: 300 }) })
  })

  test('over Redis, by another process, while topics and drafts are lost', async () => {
    const [writer, reader] = [await open(), await open()]
    /** As a flush would, in one step, for the keys of this test alone. */
    async function lose(): Promise<void> {
      const script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"
      await redis!.client.eval(script, 0, `${redis!.prefix}*`)
    }
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), (steps) =>
      holds(writer, reader, withWriteLast(steps), lose),
    )
    await fc.assert(property, { numRuns: runsOf({ usual: 20, nightly: 300 }) })
    expect(reader.stats()).toEqual({ topics: 0, followers: 0 })
  })
})

/** What was lost comes back with the next thing written, and not before. */
function withWriteLast(steps: Step[]): Step[] {
  return [...steps, { type: 'write', delta: 'end', waits: true }]
}

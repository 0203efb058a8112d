import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { type Broker, createBroker } from '../../src/broker/broker.ts'
import type { EventLog } from '../../src/broker/log.ts'
import { createMemoryLog } from '../../src/broker/memory/log.ts'
import { runsOf } from '../support/effort.ts'
import { startTextReader, type TextReader } from '../support/log-follower.ts'
import { openTestRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

type Step =
  | { type: 'write'; delta: string; waits: boolean }
  | { type: 'replace'; offset: number; text: string; waits: boolean }
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
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('replace' as const),
      offset: fc.nat(40),
      text: fc.string({ unit: 'binary' }),
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
 * Checks that every reader ends with the written text, for any writes, and any readers that disconnect and return. Unless data
 * is lost, no reader may miss a delta. If data is lost between reading a head and reading the snapshot, a reader can miss one
 * until the gap that follows.
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

  async function replace({ offset, text: end, waits }: Extract<Step, { type: 'replace' }>): Promise<void> {
    // Readers whose log was lost keep the longer of the two texts.
    if (fault !== null || text === '') return
    const from = offset % (text.length + 1)
    text = text.slice(0, from) + end
    const appended = writer.replaceText(topic, { messageId, partIndex: 0, offset: from, text: end }, text)
    writing.push(appended)
    if (waits) await appended
  }

  async function write({ delta, waits }: Extract<Step, { type: 'write' }>): Promise<void> {
    const offset = text.length
    text += delta
    const appended = writer.appendDelta(topic, { messageId, partIndex: 0, offset, delta }, () => text)
    writing.push(appended)
    if (waits) await appended
  }

  async function take(step: Step): Promise<void> {
    const reader = 'reader' in step ? readers[step.reader] : undefined
    if (step.type === 'write') await write(step)
    else if (step.type === 'replace') await replace(step)
    else if (step.type === 'other') writing.push(writer.append(topic, { type: 'SpaceUpdated' }))
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
  const isWhole = (reader: TextReader) => reader.text() === text && (fault !== null || reader.holes.length === 0)
  for (const reader of readers) await until('a reader has the whole text', () => isWhole(reader))
  await Promise.all(readers.map((reader) => reader.disconnect()))
  expect(readers.map((reader) => reader.fault.error)).toEqual(readers.map(() => undefined))
  expect((await writer.drafts(topic, [messageId])).get(messageId)?.get(0) ?? '').toBe(text)
}

describe('a message can be rebuilt from its events', () => {
  test('in process', async () => {
    const log = createMemoryLog()
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), (steps) => holds(log, log, steps, null))
    await fc.assert(property, { numRuns: runsOf({ usual: 60, nightly: 1000 }) })
    expect(log.stats()).toEqual({ topics: 0, followers: 0 })
  })
})

const redis = await openTestRedis()

describe.skipIf(redis === null)('a message can be rebuilt from its events', () => {
  const opened: Broker[] = []
  const open = async () => {
    const realtime = await createBroker({ redisUrl: redis!.url, prefix: redis!.prefix })
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
    /** Does the same as a flush, in one step, but only for the keys of this test. */
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

/** Only the next write restores a lost text, so add one at the end. */
function withWriteLast(steps: Step[]): Step[] {
  return [...steps, { type: 'write', delta: 'end', waits: true }]
}

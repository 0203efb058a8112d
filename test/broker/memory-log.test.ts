import { describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../src/broker/memory/log.ts'
import { describeEventLog } from '../contracts/event-log-contract.ts'
import { startFollower } from '../support/log-follower.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000

describeEventLog('in process', async () => createMemoryLog())

describe('in process: expiry', () => {
  /** Creates a log with a clock that the test moves. */
  function openAt() {
    const time = { now: Date.now() }
    return { time, log: createMemoryLog({ now: () => time.now }) }
  }

  test('an idle topic is removed 24 hours after its last event', async () => {
    const { time, log } = openAt()
    await log.append('space:one', { type: 'SpaceUpdated' })
    time.now += 23 * HOUR_MS
    await log.append('space:one', { type: 'SpaceUpdated' })
    const [head] = await log.heads(['space:one'])
    time.now += 23 * HOUR_MS
    expect(await log.read('space:one', head!, 10)).toEqual({ type: 'publications', publications: [] })
    time.now += HOUR_MS
    expect((await log.read('space:one', head!, 10)).type).toBe('gap')
  })

  test('a follower of the removed topic then gets a gap, and continues', async () => {
    const { time, log } = openAt()
    const follower = startFollower(log, 'space:one')
    await log.append('space:one', { type: 'SpaceUpdated' })
    await until('the follower is active', () => follower.gaps() === 1)
    time.now += 25 * HOUR_MS
    await log.append('space:two', { type: 'SpaceUpdated' })
    await until('a gap', () => follower.gaps() === 2)
    await log.append('space:one', { type: 'MemberLeft' })
    await until('the event', () => follower.entries().at(-1)?.event.type === 'MemberLeft')
    await follower.stop()
  })

  test('a draft is kept for 60 s after its end, and for 24 hours if it never ends', async () => {
    const { time, log } = openAt()
    for (const messageId of ['msg_1', 'msg_2']) {
      await log.appendDelta('space:one', { messageId, partIndex: 0, offset: 0, delta: 'text' }, () => 'text')
    }
    await log.finishDraft('space:one', 'msg_1')
    time.now += 59_000
    expect([...(await log.drafts('space:one', ['msg_1', 'msg_2'])).keys()]).toEqual(['msg_1', 'msg_2'])
    time.now += 1000
    expect([...(await log.drafts('space:one', ['msg_1', 'msg_2'])).keys()]).toEqual(['msg_2'])
    time.now += 24 * HOUR_MS
    expect(await log.drafts('space:one', ['msg_1', 'msg_2'])).toEqual(new Map())
  })

  test('a seal lasts for 24 hours', async () => {
    const { time, log } = openAt()
    await log.seal('run_1', ['run:1'])
    time.now += 23 * HOUR_MS
    expect(await log.append('run:1', { type: 'RunStarted' }, { unlessSealed: 'run_1' })).toEqual({ type: 'sealed' })
  })

  test('two logs are independent', async () => {
    const [one, two] = [createMemoryLog(), createMemoryLog()]
    const [head] = await one.heads(['space:one'])
    expect((await two.read('space:one', head!, 1)).type).toBe('gap')
  })
})

describe('in process: a limit on the bytes of all topics', () => {
  const MOST_BYTES = 100_000
  const note = (text: string) => ({ type: 'MessageTextReplaced', messageId: 'msg_1', partIndex: 0, text }) as const

  test('a flood in one topic drops its own oldest events, and none of a quiet topic', async () => {
    const log = createMemoryLog({ mostBytes: MOST_BYTES })
    const [quiet, flooded] = await log.heads(['space:quiet', 'space:flooded'])
    await log.append('space:quiet', note('hello'))
    const cursors: string[] = []
    for (let n = 0; n < 2000; n++) {
      const result = await log.append('space:flooded', note('x'.repeat(1000)))
      if (result.type === 'appended') cursors.push(result.cursor)
    }
    expect((await log.read('space:quiet', quiet!, 10)).type).toBe('publications')
    expect((await log.read('space:flooded', flooded!, 10)).type).toBe('gap')
    const readable = await Promise.all(cursors.map((cursor) => log.read('space:flooded', cursor, 1)))
    const first = readable.findIndex(({ type }) => type === 'publications')
    // The limit minus the eighth that is dropped at once. Each event has about 1,100 bytes.
    expect(cursors.length - first).toBeGreaterThan(70)
    expect(cursors.length - first).toBeLessThan(100)
    expect(readable.slice(first).every(({ type }) => type === 'publications')).toBe(true)
  })

  test('many topics with little each lose nothing while the largest can lose something', async () => {
    const log = createMemoryLog({ mostBytes: MOST_BYTES })
    const names = Array.from({ length: 100 }, (_, n) => `space:${n}`)
    const heads = await log.heads(names)
    for (const name of names) await log.append(name, note('small'))
    for (let n = 0; n < 500; n++) await log.append('space:large', note('x'.repeat(1000)))
    const pages = await Promise.all(names.map((name, n) => log.read(name, heads[n]!, 10)))
    expect(pages.filter(({ type }) => type === 'gap')).toEqual([])
  })

  test('a follower that keeps up receives every event of a flood, and events larger than the limit', async () => {
    const log = createMemoryLog({ mostBytes: MOST_BYTES })
    const follower = startFollower(log, 'space:flooded')
    await until('the follower is active', () => follower.gaps() === 1)
    for (let n = 0; n < 500; n++) {
      await log.append('space:flooded', note('x'.repeat(1000)))
      if (n % 50 === 0) await until('the follower has caught up', () => follower.entries().length === n + 1)
    }
    await log.append('space:flooded', note('x'.repeat(2 * MOST_BYTES)))
    await until('all events', () => follower.entries().length === 501)
    expect(follower.gaps()).toBe(1)
    await follower.stop()
  })

  test('the bytes of an expired or restarted topic no longer count', async () => {
    const time = { now: Date.now() }
    const log = createMemoryLog({ now: () => time.now, mostBytes: MOST_BYTES })
    for (let n = 0; n < 80; n++) await log.append('space:gone', note('x'.repeat(1000)))
    const follower = startFollower(log, 'space:followed')
    await until('the follower is active', () => follower.gaps() === 1)
    await log.append('space:followed', note('x'.repeat(1000)))
    time.now += 25 * HOUR_MS
    const [head] = await log.heads(['space:new'])
    for (let n = 0; n < 80; n++) await log.append('space:new', note('x'.repeat(1000)))
    expect((await log.read('space:new', head!, 10)).type).toBe('publications')
    await follower.stop()
  })
})

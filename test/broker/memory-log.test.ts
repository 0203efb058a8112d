import { describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../src/broker/memory/log.ts'
import { describeEventLog } from '../contracts/event-log-contract.ts'
import { startFollower } from '../support/log-follower.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000

describeEventLog('in process', async () => createMemoryLog())

describe('in process: expiry', () => {
  /** A log with a clock that the test moves. */
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

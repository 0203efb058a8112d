import { describe, expect, test } from 'vitest'
import { AWAY_AFTER_MS } from '../../src/rules/presence.ts'
import { PresenceTable } from '../../src/spaces/presence-table.ts'

describe('the presence that one process knows', () => {
  const [ada, bea] = ['hum_ada', 'hum_bea']
  const start = () => {
    const changed: string[] = []
    return { changed, table: new PresenceTable((id) => changed.push(id)) }
  }

  test('a human stays ONLINE while any process has a connection', () => {
    const { changed, table } = start()
    table.connect(ada, 'one', { activeAt: 0, now: 0 })
    table.connect(ada, 'two', { activeAt: 5, now: 5 })
    table.disconnect(ada, 'one', 10)
    expect([table.presenceOf(ada, 10), changed]).toEqual(['ONLINE', [ada]])
    table.disconnect(ada, 'two', 11)
    expect([table.presenceOf(ada, 11), changed]).toEqual(['OFFLINE', [ada, ada]])
    expect(table.size).toBe(0)
  })

  test('a human becomes AWAY after a time, and ONLINE again after a heartbeat', () => {
    const { changed, table } = start()
    table.connect(ada, 'one', { activeAt: 0, now: 0 })
    table.sweep(AWAY_AFTER_MS - 1)
    expect(changed).toEqual([ada])
    table.sweep(AWAY_AFTER_MS)
    expect([table.presenceOf(ada, AWAY_AFTER_MS), changed]).toEqual(['AWAY', [ada, ada]])
    expect(table.noteActive(ada, { activeAt: AWAY_AFTER_MS + 1, now: AWAY_AFTER_MS + 1 })).toBe(AWAY_AFTER_MS + 1)
    expect([table.presenceOf(ada, AWAY_AFTER_MS + 1), changed]).toEqual(['ONLINE', [ada, ada, ada]])
  })

  test('a heartbeat of a human who is not connected is ignored', () => {
    const { table } = start()
    expect(table.noteActive(ada, { activeAt: 0, now: 0 })).toBeNull()
    expect(table.size).toBe(0)
  })

  test('the people of a dead process are OFFLINE, unless another process has them too', () => {
    const { table } = start()
    table.connect(ada, 'one', { activeAt: 0, now: 0 })
    table.connect(bea, 'one', { activeAt: 0, now: 0 })
    table.connect(bea, 'two', { activeAt: 0, now: 0 })
    table.replaceProcess('one', new Map(), 1)
    expect([ada, bea].map((id) => table.presenceOf(id, 1))).toEqual(['OFFLINE', 'ONLINE'])
  })

  test('typing ends automatically, and uses no memory afterwards', () => {
    const { table } = start()
    table.setTyping(ada, 'spc_a', 100, 0)
    expect([table.typingUntil(ada, 'spc_a', 99), table.typingUntil(ada, 'spc_b', 99)]).toEqual([100, undefined])
    expect(table.typingUntil(ada, 'spc_a', 100)).toBeUndefined()
    table.setTyping(ada, 'spc_a', 50, 60)
    expect(table.typingUntil(ada, 'spc_a', 60)).toBeUndefined()
  })

  test('5,000 people take less than 5 MiB', () => {
    const { table } = start()
    globalThis.gc?.()
    const before = process.memoryUsage().heapUsed
    for (let n = 0; n < 5000; n++) table.connect(`hum_${String(n).padStart(32, '0')}`, 'one', { activeAt: n, now: n })
    globalThis.gc?.()
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5 * 1024 * 1024)
    expect(table.size).toBe(5000)
  })
})

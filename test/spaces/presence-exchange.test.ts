import { describe, expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import type { Signals } from '../../src/broker/signals.ts'
import { MOVED_WITHIN_MS, openPresenceExchange, SILENT_AFTER_MS } from '../../src/spaces/presence-exchange.ts'
import { PresenceTable } from '../../src/spaces/presence-table.ts'
import { until } from '../support/until.ts'

const NOTHING = { came: [], went: [], active: [], typing: [] }
const ADA = 'hum_ada'

describe('the exchange of presence between processes', () => {
  const shared = createMemorySignals({ info: () => {}, warn: () => {} })
  let time = 0
  const now = () => time

  function start(processId: string, signals: Signals = shared) {
    const table = new PresenceTable(() => {})
    const exchange = openPresenceExchange({ signals }, { processId, table, now })
    const connect = (id: string) => {
      table.connect(id, processId, { activeAt: now(), now: now() })
      exchange.send({ ...NOTHING, came: [[id, 0]] })
    }
    const presence = (id: string) => table.presenceOf(id, now())
    return { table, exchange, connect, presence }
  }

  test('a process that starts later learns all states, and one that has missed a message requests them', async () => {
    const one = start('one')
    one.connect(ADA)
    const two = start('two')
    await until('the second process knows Ada', () => two.presence(ADA) === 'ONLINE')
    let isDeaf = false
    const lossy = {
      ...shared,
      subscribe: (channel: string, listener: Parameters<Signals['subscribe']>[1]) =>
        shared.subscribe(channel, (payload) => void (isDeaf || listener(payload))),
    }
    const three = start('three', lossy)
    await until('the third process knows Ada', () => three.presence(ADA) === 'ONLINE')
    isDeaf = true
    one.connect('hum_bea')
    one.table.disconnect(ADA, 'one', now())
    one.exchange.send({ ...NOTHING, went: [ADA] })
    await until('the second process has received the change', () => two.presence(ADA) === 'OFFLINE')
    expect([three.presence(ADA), three.presence('hum_bea')]).toEqual(['ONLINE', 'OFFLINE'])
    isDeaf = false
    time += 2000
    one.exchange.send(NOTHING)
    await until(
      'the third process has asked',
      () => three.presence(ADA) === 'OFFLINE' && three.presence('hum_bea') === 'ONLINE',
    )
    for (const { exchange } of [one, two, three]) await exchange.close()
  })

  test('the people of a process that died are OFFLINE after a bounded time, and those of a process that shut down are OFFLINE sooner', async () => {
    const [one, two, three] = [start('one'), start('two'), start('three')]
    one.connect(ADA)
    two.connect('hum_bea')
    await until(
      'the third process knows both',
      () => three.presence(ADA) === 'ONLINE' && three.presence('hum_bea') === 'ONLINE',
    )
    await two.exchange.close()
    await until('the goodbye has arrived', () => {
      time += MOVED_WITHIN_MS + 1
      one.exchange.send(NOTHING)
      three.exchange.sweep(now())
      return three.presence('hum_bea') === 'OFFLINE'
    })
    expect(three.presence(ADA)).toBe('ONLINE')
    time += SILENT_AFTER_MS + 1
    three.exchange.sweep(now())
    expect(three.presence(ADA)).toBe('OFFLINE')
    for (const { exchange } of [one, three]) await exchange.close()
  })
})

import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { createTurns, type Turns } from '../../src/lib/turns.ts'

describe('turns', () => {
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

  test('a few waiters continue at once', async () => {
    const turns = createTurns({ few: 4, crowdShare: 8 })
    for (let n = 0; n < 3; n++) {
      let hasTurned = false
      const turned = nextTurn().then(() => {
        hasTurned = true
      })
      await Promise.all([turns.next(), turns.next(), turns.next(), turns.next()])
      expect(hasTurned).toBe(false)
      await turned
      await nextTurn()
    }
  })

  test('many waiters continue in order, with other work in between', async () => {
    const turns = createTurns({ few: 4, crowdShare: 8 })
    const order: string[] = []
    let isOver = false
    const names = [...'abcdefghijkl']
    const crowd = Promise.all(names.map((name) => Promise.resolve(turns.next()).then(() => order.push(name))))
    const others = async () => {
      for (; !isOver; await nextTurn()) order.push('-')
    }
    const all = others()
    await crowd
    isOver = true
    await all
    expect(order.join('').replaceAll('-', '')).toBe(names.join(''))
    expect(order.join('')).toMatch(/h-+i/)
  })

  const FEW = 16
  const CROWD = Array.from({ length: 500 }, (_, n) => n)
  /** Runs the function in its turn. */
  const inTurn = async (turns: Turns, act: () => unknown) => {
    await turns.next()
    act()
  }

  test('many concurrent waiters continue a few at a time, with one iteration of the event loop in between', async () => {
    const turns = createTurns({ few: FEW })
    const rounds: number[][] = [[]]
    let isOver = false
    const others = (async () => {
      for (; !isOver; await nextTurn()) rounds.push([])
    })()
    await Promise.all(CROWD.map((n) => inTurn(turns, () => rounds.at(-1)?.push(n))))
    isOver = true
    await others
    const portions = rounds.filter(({ length }) => length > 0)
    expect(portions.flat()).toEqual(CROWD)
    expect(portions.map(({ length }) => length)).toEqual([...Array(31).fill(FEW), 500 % FEW])
  })

  test('input is read between two batches of waiters', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const [[socket]] = await Promise.all([once(server, 'connection'), once(client, 'connect')])
    const turns = createTurns({ few: FEW })
    let had = 0
    const heardAt = once(client, 'data').then(() => had)
    const crowd = CROWD.map((n) =>
      inTurn(turns, () => {
        had += 1
        if (n === 0) socket.write('x')
      }),
    )
    expect(await heardAt).toBeLessThanOrEqual(3 * FEW)
    await Promise.all(crowd)
    client.destroy()
    server.close()
  })

  test('a late waiter continues after those that wait, and none is left waiting', async () => {
    const turns = createTurns({ few: FEW })
    const order: string[] = []
    const crowd = CROWD.slice(0, 3 * FEW).map(() => inTurn(turns, () => order.push('crowd')))
    await nextTurn()
    const late = inTurn(turns, () => order.push('late'))
    await Promise.all([...crowd, late])
    expect(order.indexOf('late')).toBe(3 * FEW)
    await nextTurn()
    await nextTurn()
    expect(turns.next()).toBeUndefined()
  })
})

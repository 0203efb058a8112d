import { describe, expect, test } from 'vitest'
import { createTurns } from '../../src/lib/turns.ts'

describe('turns', () => {
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

  test('a few go on at once', async () => {
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

  test('a crowd goes in order, and what others do comes in between', async () => {
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
})

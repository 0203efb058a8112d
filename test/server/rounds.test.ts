import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createRounds, type Fill } from '../../src/server/sharing/rounds.ts'
import { until } from '../support/until.ts'

/** Fills so many sockets, and notes each by `name`. */
function fillOf(name: string, sockets: number, notes: string[]): Fill {
  let left = sockets
  return (most) => {
    const filled = Math.min(left, most)
    left -= filled
    for (let count = 0; count < filled; count++) notes.push(name)
    return filled
  }
}

describe('rounds of writing', () => {
  test('begin at the end of the tick, and let everything else have its turn before a long one is over', async () => {
    const rounds = createRounds()
    const notes: string[] = []
    rounds.next(fillOf('round', 1000, notes))
    expect(notes).toEqual([])
    await setImmediate()
    notes.push('else')
    await until('the round is over', () => notes.filter((note) => note === 'round').length === 1000)
    expect(notes.indexOf('else')).toBeGreaterThan(0)
    expect(notes.indexOf('else')).toBeLessThan(1000)
  })

  test('what comes during a round waits for the next, in its order', async () => {
    const rounds = createRounds()
    const notes: string[] = []
    rounds.next(fillOf('first', 1000, notes))
    await setImmediate()
    rounds.next(fillOf('second', 1, notes))
    rounds.next(fillOf('third', 1, notes))
    await until('all is done', () => notes.length === 1002)
    expect(notes.slice(1000)).toEqual(['second', 'third'])
  })

  test('write to sockets once everything that the round has for them was given, and let others have their turn then too', async () => {
    const rounds = createRounds()
    const notes: string[] = []
    const giving = (name: string): Fill => {
      const fill = fillOf(`${name} given`, 300, notes)
      return (most) => {
        const given = fill(most)
        for (let count = 0; count < given; count++) rounds.atEnd(() => notes.push(`${name} written`))
        return given
      }
    }
    rounds.next(giving('one'))
    rounds.next(giving('two'))
    while (!notes.includes('one written')) await setImmediate()
    notes.push('else')
    await until('all are written', () => notes.length === 1201)
    const inOrder = ['one given', 'two given', 'one written', 'two written']
    expect(notes.filter((note) => note !== 'else')).toEqual(inOrder.flatMap((note) => Array(300).fill(note)))
    expect(notes.indexOf('else')).toBeLessThan(1200)
  })

  test('what is given outside of a round is written at the end of its tick, however long the round', async () => {
    const rounds = createRounds()
    const notes: string[] = []
    rounds.next(fillOf('round', 10_000, notes))
    await setImmediate()
    rounds.atEnd(() => notes.push('answer'))
    await new Promise<void>((resolve) => process.nextTick(resolve))
    expect(notes.at(-1)).toBe('answer')
    expect(notes.length).toBeLessThan(10_000)
    await until('the round is over', () => notes.length === 10_001)
  })
})

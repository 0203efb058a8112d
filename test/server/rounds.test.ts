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
    rounds.next(fillOf('first', 300, notes))
    await setImmediate()
    rounds.next(fillOf('second', 1, notes))
    rounds.next(fillOf('third', 1, notes))
    await until('all is done', () => notes.length === 302)
    expect(notes.slice(300)).toEqual(['second', 'third'])
  })

  test('write to a socket once everything that a slice has for it was given', async () => {
    const rounds = createRounds()
    const notes: string[] = []
    const giving = (name: string): Fill => {
      let isDone = false
      return () => {
        if (isDone) return 0
        isDone = true
        rounds.atEnd(() => notes.push(`${name} written`))
        notes.push(`${name} given`)
        return 1
      }
    }
    rounds.next(giving('one'))
    rounds.next(giving('two'))
    await until('both are written', () => notes.length === 4)
    expect(notes).toEqual(['one given', 'two given', 'one written', 'two written'])
  })
})

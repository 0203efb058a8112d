import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RateLimitedError } from '../../src/lib/errors.ts'
import { createFairQueue } from '../../src/lib/fair-queue.ts'

const hasty = (id: string) => ({ id, isPatient: false })
const patient = (id: string) => ({ id, isPatient: true })

describe('a fair queue', () => {
  const open = (mostWaiting = 20) => {
    let time = 0
    const queue = createFairQueue({ mostWaiting, refusal: 'Too many.', now: () => time })
    const done: string[] = []
    const gate = createDeferred()
    const held = queue.run(hasty('first'), () => gate.promise)
    const add = (name: string, requester = hasty(name[0] ?? ''), takesMs = 10) =>
      queue.run(requester, async () => {
        time += takesMs
        done.push(name)
        return name
      })
    return { queue, done, gate, held, add }
  }

  test('runs one task at a time, in turns of requesters whose tasks take equally long, and in order for each requester', async () => {
    const { done, gate, add } = open()
    const all = ['a1', 'a2', 'a3', 'b1', 'c1', 'c2'].map((name) => add(name))
    expect(done).toEqual([])
    gate.resolve()
    expect(await Promise.all(all)).toEqual(['a1', 'a2', 'a3', 'b1', 'c1', 'c2'])
    expect(done).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  })

  test('a requester with long tasks delays the short tasks of others by no more than one of them', async () => {
    const { done, gate, add } = open()
    const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'b4', 'b5'].map((name) =>
      add(name, hasty(name[0] ?? ''), name.startsWith('a') ? 500 : 10),
    )
    gate.resolve()
    await Promise.all(all)
    expect(done).toEqual(['a1', 'b1', 'b2', 'b3', 'b4', 'b5', 'a2', 'a3'])
  })

  test('refuses further tasks of one requester, but not those of others or patient ones', async () => {
    const { done, gate, add } = open(2)
    const waiting = [add('a1'), add('a2'), add('b1'), add('a4', patient('a')), add('a5', patient('a'))]
    await expect(add('a3')).rejects.toThrow(RateLimitedError)
    gate.resolve()
    await Promise.all(waiting)
    expect(done).toEqual(['a1', 'b1', 'a2', 'a4', 'a5'])
    expect(await add('a6')).toBe('a6')
  })

  test('continues after a task that throws', async () => {
    const { queue, gate, add } = open()
    const failed = queue.run(hasty('a'), async () => {
      throw new Error('broken')
    })
    const next = add('a2')
    gate.resolve()
    await expect(failed).rejects.toThrow('broken')
    expect(await next).toBe('a2')
  })
})

import { expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { createFairPlaces } from '../../src/lib/fair-places.ts'

const FULL = { code: 'RATE_LIMITED' }

function open() {
  const places = createFairPlaces({ most: 6, mostOfOne: 4, refusal: 'Too many.' })
  /** Work that ends when it is aborted. */
  const hold = (requesterId: string) => {
    const over = new AbortController()
    const done = places
      .run(requesterId, (signal) => {
        const ended = AbortSignal.any([signal, over.signal])
        return new Promise<string>((resolve, reject) => {
          ended.addEventListener('abort', () => (over.signal.aborted ? resolve('done') : reject(new Error('cut off'))))
        })
      })
      .catch((error: unknown) => error)
    return { done, finish: () => over.abort() }
  }
  return { places, hold }
}

test('one requester gets its share of places, and a place again when its work has ended', async () => {
  const { places, hold } = open()
  const [first] = Array.from({ length: 4 }, () => hold('a'))
  await expect(places.run('a', async () => 'more')).rejects.toMatchObject(FULL)
  first!.finish()
  expect(await first!.done).toBe('done')
  expect(await places.run('a', async () => 'more')).toBe('more')
})

test('work waits for other work of its requester, if the options allow it', async () => {
  const places = createFairPlaces({
    most: 4,
    mostOfOne: 1,
    mostWaiting: 1,
    longestWaitMs: 60_000,
    refusal: 'Too many.',
  })
  const first = createDeferred()
  const order: string[] = []
  const run = (name: string, until: Promise<void>) =>
    places.run('a', async () => {
      await until
      order.push(name)
    })
  const both = [run('first', first.promise), run('second', Promise.resolve())]
  await expect(run('third', Promise.resolve())).rejects.toMatchObject(FULL)
  first.resolve()
  await Promise.all(both)
  expect(order).toEqual(['first', 'second'])
})

test('requesters with many places lose their newest work to one with few, until all have about as many', async () => {
  const { places, hold } = open()
  const [a, b] = [Array.from({ length: 3 }, () => hold('a')), Array.from({ length: 3 }, () => hold('b'))]
  const c = [hold('c'), hold('c')]
  expect(await Promise.all([a[2]!.done, b[2]!.done])).toMatchObject([FULL, FULL])
  await expect(places.run('c', async () => 'more')).rejects.toMatchObject(FULL)
  for (const one of [...a.slice(0, 2), ...b.slice(0, 2), ...c]) one.finish()
  expect(await Promise.all([a[0]!.done, b[1]!.done, c[1]!.done])).toEqual(['done', 'done', 'done'])
  expect(await places.run('c', async () => 'more')).toBe('more')
})

import { expect, test } from 'vitest'
import { FairCache } from '../../src/lib/fair-cache.ts'

test('what is used longest ago goes first', () => {
  const cache = new FairCache<number>(3)
  for (const [n, key] of ['a', 'b', 'c'].entries()) cache.set(key, n, { size: 1, owner: 'ada' })
  expect(cache.get('a')).toBe(0)
  cache.set('d', 3, { size: 1, owner: 'ada' })
  expect(['a', 'b', 'c', 'd'].filter((key) => cache.peek(key) !== undefined)).toEqual(['a', 'c', 'd'])
})

test('one who adds much pushes out its own, never what belongs to others who have less', () => {
  const cache = new FairCache<string>(100)
  for (let n = 0; n < 10; n++) cache.set(`bob ${n}`, 'kept', { size: 2, owner: 'bob' })
  for (let n = 0; n < 5000; n++) cache.set(`mallory ${n}`, 'new', { size: 3, owner: 'mallory' })
  for (let n = 0; n < 10; n++) expect(cache.get(`bob ${n}`)).toBe('kept')
  expect(cache.get('mallory 4999')).toBe('new')
  expect(cache.size).toBeLessThanOrEqual(100)
})

test('a value that is set again counts once, and for who set it last', () => {
  const cache = new FairCache<number>(10)
  cache.set('a', 1, { size: 6, owner: 'ada' })
  cache.set('a', 2, { size: 7, owner: 'bob' })
  expect([cache.size, cache.get('a')]).toEqual([7, 2])
})

test('what is larger than all of it is not kept', () => {
  const cache = new FairCache<number>(10)
  cache.set('a', 1, { size: 5, owner: 'ada' })
  cache.set('b', 2, { size: 11, owner: 'ada' })
  expect([cache.peek('a'), cache.peek('b'), cache.size]).toEqual([1, undefined, 5])
})

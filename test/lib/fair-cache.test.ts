import { expect, test } from 'vitest'
import { FairCache } from '../../src/lib/fair-cache.ts'

test('the least recently used entry is evicted first', () => {
  const cache = new FairCache<number>(3)
  for (const [n, key] of ['a', 'b', 'c'].entries()) cache.set(key, n, { size: 1, owner: 'ada' })
  expect(cache.get('a')).toBe(0)
  cache.set('d', 3, { size: 1, owner: 'ada' })
  expect(['a', 'b', 'c', 'd'].filter((key) => cache.peek(key) !== undefined)).toEqual(['a', 'c', 'd'])
})

test('an owner who adds many entries evicts its own, not those of owners with fewer', () => {
  const cache = new FairCache<string>(100)
  for (let n = 0; n < 10; n++) cache.set(`bob ${n}`, 'kept', { size: 2, owner: 'bob' })
  for (let n = 0; n < 5000; n++) cache.set(`mallory ${n}`, 'new', { size: 3, owner: 'mallory' })
  for (let n = 0; n < 10; n++) expect(cache.get(`bob ${n}`)).toBe('kept')
  expect(cache.get('mallory 4999')).toBe('new')
  expect(cache.size).toBeLessThanOrEqual(100)
})

test('an entry that is set again counts once, for its last owner', () => {
  const cache = new FairCache<number>(10)
  cache.set('a', 1, { size: 6, owner: 'ada' })
  cache.set('a', 2, { size: 7, owner: 'bob' })
  expect([cache.size, cache.get('a')]).toEqual([7, 2])
})

test('an entry larger than the cache is not kept', () => {
  const cache = new FairCache<number>(10)
  cache.set('a', 1, { size: 5, owner: 'ada' })
  cache.set('b', 2, { size: 11, owner: 'ada' })
  expect([cache.peek('a'), cache.peek('b'), cache.size]).toEqual([1, undefined, 5])
})

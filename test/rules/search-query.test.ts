import { describe, expect, test } from 'vitest'
import { BadInputError } from '../../src/lib/errors.ts'
import { readSearchQuery, termsOf } from '../../src/rules/search-query.ts'

const wordsOf = (query: string) => termsOf(readSearchQuery(query)).words

describe('a search query', () => {
  test.each([
    ['', ''],
    ['  \n ', ''],
    ['?! … — "', ''],
    ['\0', ''],
    ['🎉', ''],
    ['pipeline', "'pipeline':*"],
    ['a to be', "'a' & 'to' & 'be'"],
    ['red, (green) blue.', "'red':* & 'green':* & 'blue':*"],
    ['"red green"', "('red' <-> 'green')"],
    ['"art"', "'art'"],
    ['"red green', "'red':* & 'green':*"],
    ['src/lib/page.ts', "('src' <-> 'lib' <-> 'page' <-> 'ts')"],
    ["o'neill", "('o' <-> 'neill':*)"],
    ["x' | 'y", "'x' & 'y'"],
    ['東京', "('東' <-> '京')"],
    ['не', "'не':*"],
    ['red\0green', "'red':* & 'green':*"],
  ])('%j is searched for as %j', (query, words) => {
    expect(wordsOf(query)).toBe(words)
  })

  test('matches parts of words if a piece has three characters', () => {
    expect(termsOf(readSearchQuery('ab 東京')).parts).toBeNull()
    expect(termsOf(readSearchQuery('ab ipel')).parts).toEqual([
      { type: 'words', words: "'ab'" },
      { type: 'like', pattern: '%ipel%' },
    ])
    expect(termsOf(readSearchQuery('100%_sure')).parts).toEqual([{ type: 'like', pattern: '%100\\%\\_sure%' }])
    expect(termsOf(readSearchQuery('"whole words"')).parts).toBeNull()
  })

  test('has at most 500 characters', () => {
    expect(wordsOf('x'.repeat(500))).not.toBe('')
    expect(() => readSearchQuery('x'.repeat(501))).toThrow(BadInputError)
    expect(() => readSearchQuery('x'.repeat(10_000))).toThrow(BadInputError)
  })
})

import { describe, expect, test } from 'vitest'
import { readSearchQuery } from '../../src/rules/search-query.ts'
import { snippetOf } from '../../src/rules/snippet.ts'

const markedIn = (text: string, query: string) => {
  const { snippet, matches } = snippetOf(text, readSearchQuery(query))
  return matches.map(([from, to]) => snippet.slice(from, to))
}

describe('a snippet', () => {
  test.each([
    ['The pipeline failed', 'PIPE', ['pipe']],
    ['Élan vital', 'elan', ['Élan']],
    ['E\u0301lan vital', 'élan', ['E\u0301lan']],
    ['Øre og straße', 'ore strasse', ['Øre', 'straße']],
    ['🎉🎉 party 🎉 party', 'party', ['party', 'party']],
    ['私は東京に住む', '東京', ['東京']],
    ['red-green and red green', '"red green"', ['red', 'green', 'red green']],
    ['nothing here', 'absent', []],
  ])('the snippet of %j for %j marks its matches', (text, query, marked) => {
    expect(markedIn(text, query)).toEqual(marked)
  })

  test('surrounds the first match, on one line, with whole characters', () => {
    const text = `${'🎉'.repeat(300)} start\nof the needle ${'🎉'.repeat(300)}`
    const { snippet, matches } = snippetOf(text, readSearchQuery('needle'))
    expect(snippet).toContain('of the needle')
    expect(snippet.isWellFormed()).toBe(true)
    expect(snippet.length).toBeLessThanOrEqual(243)
    expect(snippet.startsWith('…') && snippet.endsWith('…')).toBe(true)
    expect(matches.map(([from, to]) => snippet.slice(from, to))).toEqual(['needle'])
  })
})

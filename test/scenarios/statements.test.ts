import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const TESTS = path.resolve(import.meta.dirname, '..')

test.each(['statements-000-002.md', 'statements-003-004.md'])('the test files that %s names exist', (name) => {
  const text = readFileSync(path.join(import.meta.dirname, name), 'utf8')
  const named = [...new Set(text.match(/[\w/-]+\.test\.ts/g))].map((file) => file.replace(/^test\//, ''))
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter((file) => !existsSync(path.join(TESTS, file)))).toEqual([])
})

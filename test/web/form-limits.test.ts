import { describe, expect, test } from 'vitest'
import { fitsForm, withoutPatterns } from '../../web/decide/form-limits.ts'

const fields = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`field${at}`, { type: 'string' }]))

function nested(levels: number): Record<string, unknown> {
  let schema: Record<string, unknown> = { type: 'string' }
  for (let level = 0; level < levels; level += 1) schema = { type: 'object', properties: { inner: schema } }
  return schema
}

const TREE = {
  type: 'object',
  properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#' } } },
}
/** Each branch is twice as large as the previous one. */
const DOUBLING = {
  $defs: Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [
      `d${at}`,
      { anyOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
    ]),
  ),
  $ref: '#/$defs/d0',
}

describe('a form of a JSON Schema', () => {
  test.each([
    ['a few fields', { type: 'object', properties: fields(40) }, undefined],
    [
      'a list of objects',
      { type: 'object', properties: { rows: { type: 'array', items: { type: 'object', properties: fields(5) } } } },
      { rows: [{ field0: 'a' }, {}] },
    ],
    ['a tree that refers to itself by its items', TREE, { name: 'a', children: [{ name: 'b', children: [] }] }],
    ['250 options', { enum: Array.from({ length: 250 }, (_, at) => at) }, undefined],
    ['alternatives', { oneOf: [{ type: 'string' }, { type: 'object', properties: fields(3) }] }, 'a'],
  ])('supports %s', (_, schema, value) => {
    expect(fitsForm(schema, value)).toBe(true)
  })

  test.each([
    ['5,000 fields', { type: 'object', properties: fields(5000) }, undefined],
    ['10,000 levels', nested(10_000), undefined],
    ['an object that refers to itself', { type: 'object', properties: { inner: { $ref: '#' } } }, undefined],
    ['a reference to itself', { $ref: '#' }, undefined],
    ['references that double', DOUBLING, undefined],
    ['100,000 options', { enum: Array.from({ length: 100_000 }, (_, at) => at) }, undefined],
    ['at least a billion items', { type: 'array', items: { type: 'string' }, minItems: 1e9 }, undefined],
    ['a value of 10,000 items', { type: 'array', items: { type: 'string' } }, Array(10_000).fill('a')],
    ['a very deep tree of values', TREE, JSON.parse(`${'{"children":['.repeat(400)}${']}'.repeat(400)}`)],
    ['names by pattern', { type: 'object', patternProperties: { '(a+)+$': {} } }, {}],
    ['thousands of options in an item', { type: 'array', items: { enum: Array(5000).fill('a') } }, []],
  ])('does not support %s', (_, schema, value) => {
    expect(fitsForm(schema as Record<string, unknown>, value)).toBe(false)
  })

  test('regular expressions are left to the server; a field with that name stays', () => {
    expect(
      withoutPatterns({
        type: 'object',
        properties: { pattern: { type: 'string', pattern: '(a+)+$' } },
        const: { pattern: 'kept' },
      }),
    ).toEqual({ type: 'object', properties: { pattern: { type: 'string' } }, const: { pattern: 'kept' } })
  })
})

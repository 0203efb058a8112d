import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  hasNameBefore,
  ROW_TYPES,
  rowsOf,
  type SchemaRow,
  schemaOf,
  wordsOfKeywords,
} from '../../web/operate/schema-rows.ts'

const text = { type: 'string' }
const object = (more: object) => ({ type: 'object', properties: { item: text }, ...more })

describe('the fields of a schema', () => {
  test('convert to the schema, and the schema converts back', () => {
    const rows = fc.uniqueArray(
      fc.record({
        name: fc.stringMatching(/^[a-z]\w{0,8}$/),
        type: fc.constantFrom(...ROW_TYPES),
        isRequired: fc.boolean(),
        description: fc.stringMatching(/^(\w[\w ]{0,10}\w)?$/),
        more: fc.dictionary(fc.constantFrom('minimum', 'enum', 'default'), fc.jsonValue(), { noNullPrototype: true }),
      }),
      { selector: ({ name }) => name, maxLength: 6 },
    )
    fc.assert(
      fc.property(rows, (made) => {
        expect(rowsOf(schemaOf(made))).toEqual(made)
      }),
    )
  })

  test.each([
    ['further keywords', object({ additionalProperties: false })],
    ['a list of objects', object({ properties: { item: { type: 'array', items: { type: 'object' } } } })],
    ['a required field that it does not describe', object({ required: ['other'] })],
    ['several types', object({ properties: { item: { type: ['string', 'null'] } } })],
    ['no object', { type: 'string' }],
    ['no schema', 'text'],
  ])('are not offered for a schema with %s, which they would lose', (_, schema) => {
    expect(rowsOf(schema)).toBeNull()
  })

  test('keep keywords that they cannot edit, and describe them', () => {
    const quantity = { type: 'integer', description: 'How many', minimum: 1, maximum: 20 }
    const schema = object({ properties: { quantity, unit: { ...text, enum: ['m', 'kg'], format: 'si' } } })
    const rows = rowsOf(schema) ?? []
    expect(schemaOf(rows)).toEqual(schema)
    expect(rows.map(({ more }) => wordsOfKeywords(more))).toEqual([
      'at least 1, at most 20',
      'one of m, kg, format "si"',
    ])
  })

  test('fields with a duplicate name are refused', () => {
    const [item, same] = [' item', 'item'].map((name) => ({
      name,
      type: 'string' as const,
      isRequired: true,
      description: '',
      more: {},
    }))
    const rows = [item, { ...item, name: 'other' }, same, { ...item, name: '' }, { ...item, name: ' ' }] as SchemaRow[]
    expect(rows.map((_, at) => hasNameBefore(rows, at))).toEqual([false, false, true, false, false])
  })

  test('fields without a name are omitted', () => {
    const row = { name: ' ', type: 'string' as const, isRequired: true, description: '', more: {} }
    expect(schemaOf([row, { ...row, name: 'item' }])).toEqual(object({ required: ['item'] }))
  })
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkJson } from '../../src/lib/schema-checks.ts'
import { type Bounds, letThrough, schemaOf, wordsOfLimit, wordsOfSchema } from '../../web/decide/grant-bounds.ts'

const OPEN: Bounds = { limits: {}, maxCalls: null, amountProperty: null, maxAmount: null }

test.each<[string, Partial<Bounds>, unknown[], boolean[]]>([
  ['a number of calls', { maxCalls: 2 }, [{}, {}, {}], [true, true, false]],
  [
    'a sum, of decimals',
    { amountProperty: 'price', maxAmount: 0.3 },
    [{ price: 0.1 }, { price: 0.5 }, { price: 0.2 }, { price: 0.01 }, { price: 0 }],
    [true, false, true, false, true],
  ],
  [
    'an amount that is missing, negative or a text',
    { amountProperty: 'price', maxAmount: 9 },
    [{}, { price: -1 }, { price: '1' }],
    [false, false, false],
  ],
  [
    'values of properties',
    { limits: { item: { type: 'ONLY', value: 'Fleece' }, quantity: { type: 'AT_MOST', value: 2 } } },
    [{ item: 'Fleece', quantity: 2 }, { item: 'Foil', quantity: 1 }, { item: 'Fleece', quantity: 3 }, { quantity: 1 }],
    [true, false, false, false],
  ],
  ['inputs that are no objects', { maxCalls: 1 }, [null, 'x', {}], [false, false, true]],
])('the form shows which past inputs are within %s', (_, bounds, inputs, within) => {
  expect(letThrough({ ...OPEN, ...bounds }, inputs)).toEqual(within)
})

test('the form and the server agree on limits of the input (property)', async () => {
  const value = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom('a', 'b', true, null))
  const limit = fc.oneof(
    fc.record({ type: fc.constant('ONLY' as const), value }),
    fc.record({ type: fc.constant('AT_MOST' as const), value: fc.integer({ min: -3, max: 3 }) }),
  )
  const limits = fc.dictionary(fc.constantFrom('x', 'y', 'z'), limit, { minKeys: 1 })
  const input = fc.dictionary(fc.constantFrom('x', 'y', 'z'), value)
  await fc.assert(
    fc.asyncProperty(limits, input, async (limits, input) => {
      const fault = await checkJson(schemaOf(limits) as never, input as never, { id: 'hum_1', isPatient: true })
      expect(letThrough({ ...OPEN, limits }, [input])).toEqual([fault === null])
    }),
    { numRuns: 60 },
  )
})

test('limits are described in words, other schemas are not', () => {
  const limits = { item: { type: 'ONLY', value: 'Fleece' }, quantity: { type: 'AT_MOST', value: 2 } } as const
  expect(wordsOfSchema(schemaOf(limits))).toEqual(['Item: only "Fleece"', 'Quantity: at most 2'])
  expect(wordsOfSchema(null)).toEqual([])
  expect(wordsOfSchema({ properties: { item: { enum: ['a'] } } })).toBeNull()
  expect(wordsOfSchema({ ...schemaOf(limits), not: {} })).toBeNull()
})

test('a limit names its property by the title of the schema, or by its name in words', () => {
  const schema = { properties: { price: { title: 'Price in euros' }, any_colour: true } }
  expect(wordsOfLimit('price', { type: 'AT_MOST', value: 23.8 }, schema)).toBe('Price in euros: at most 23.80')
  expect(wordsOfLimit('any_colour', undefined, schema)).toBe('Any colour: any value')
  expect(wordsOfLimit('toString', { type: 'ONLY', value: true }, schema)).toBe('ToString: only yes')
})

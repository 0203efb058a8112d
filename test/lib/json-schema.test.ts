import { describe, expect, test } from 'vitest'
import { checkInput, checkInputSchema } from '../../src/lib/json-schema.ts'

const weather = {
  type: 'object',
  properties: {
    city: { type: 'string', minLength: 2 },
    unit: { enum: ['celsius', 'fahrenheit'] },
    days: { type: 'integer', minimum: 1 },
    where: { type: 'object', properties: { 'a/b': { type: 'string' } }, required: ['a/b'] },
  },
  required: ['city'],
  additionalProperties: false,
}

describe('the schema of a tool', () => {
  test('is accepted if it compiles and describes an object', () => {
    expect(checkInputSchema(weather)).toBeNull()
    expect(checkInputSchema({ type: 'object' })).toBeNull()
  })

  test.each([
    [null, 'must be a JSON Schema object'],
    [[], 'must be a JSON Schema object'],
    [true, 'must be a JSON Schema object'],
    [{}, 'must have "type": "object" at the top'],
    [{ type: 'string' }, 'must have "type": "object" at the top'],
    [{ type: ['object', 'null'] }, 'must have "type": "object" at the top'],
    [{ type: 'object', oneOf: [] }, 'must not have "oneOf" at the top'],
    [{ type: 'object', properties: { a: { type: 'strin' } } }, 'is not valid JSON Schema'],
    [{ type: 'object', properties: { a: { $ref: '#/definitions/missing' } } }, 'is not valid JSON Schema'],
    [{ type: 'object', properties: { a: { $ref: 'https://example.com/schema' } } }, 'is not valid JSON Schema'],
    [{ type: 'object', properties: { a: { pattern: '(' } } }, 'is not valid JSON Schema'],
  ])('%j is refused with the reason', (schema, reason) => {
    expect(checkInputSchema(schema)).toContain(reason)
  })

  test.each([
    'http://json-schema.org/draft-07/schema#',
    'https://json-schema.org/draft/2019-09/schema',
    'https://json-schema.org/draft/2020-12/schema',
  ])('may be written in %s', (dialect) => {
    expect(checkInputSchema({ ...weather, $schema: dialect })).toBeNull()
    expect(checkInput({ ...weather, $schema: dialect }, { city: 'Oslo' })).toBeNull()
  })

  test('may use unknown keywords and formats, and an $id that another schema has', () => {
    const schema = { $id: 'tool', type: 'object', properties: { a: { type: 'string', format: 'haiku', 'x-order': 1 } } }
    expect(checkInputSchema(schema)).toBeNull()
    expect(checkInputSchema({ ...schema, title: 'Another' })).toBeNull()
    expect(checkInput(schema, { a: 'x' })).toBeNull()
  })
})

describe('the input of a tool', () => {
  test('passes if it fits', () => {
    expect(checkInput(weather, { city: 'Oslo', unit: 'celsius', days: 2, where: { 'a/b': 'c' } })).toBeNull()
  })

  test.each([
    [{}, 'city is required.'],
    [{ city: 'O' }, 'city must NOT have fewer than 2 characters.'],
    [{ city: 'Oslo', unit: 'kelvin' }, 'unit must be one of "celsius", "fahrenheit".'],
    [{ city: 'Oslo', days: 1.5 }, 'days must be integer.'],
    [{ city: 'Oslo', where: {} }, 'where.a/b is required.'],
    [{ city: 'Oslo', where: { 'a/b': 1 } }, 'where.a/b must be string.'],
    [{ city: 'Oslo', planet: 'Mars' }, 'planet is not a known property.'],
    [{ days: 0, unit: 1 }, 'city is required; unit must be one of "celsius", "fahrenheit"; days must be >= 1.'],
    ['Oslo', 'The input must be a JSON object.'],
    [null, 'The input must be a JSON object.'],
    [[1], 'The input must be a JSON object.'],
  ])('%j is refused with a message that a model can act on', (input, words) => {
    expect(checkInput(weather, input)).toBe(words)
  })

  test('is not changed by the check', () => {
    const input = { city: 'Oslo', days: '2' }
    checkInput({ ...weather, properties: { ...weather.properties, days: { type: 'string', default: '1' } } }, input)
    expect(input).toEqual({ city: 'Oslo', days: '2' })
  })

  test('lists five faults and the number of further faults', () => {
    const schema = { type: 'object', required: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] }
    expect(checkInput(schema, {})).toBe(
      'a is required; b is required; c is required; d is required; e is required; and 2 more.',
    )
  })

  test('is checked a thousand times in far less time than compiling it as often takes', () => {
    const startedAt = performance.now()
    for (let count = 0; count < 1_000; count += 1) checkInput({ ...weather, title: 'cached' }, { city: 'Oslo' })
    expect(performance.now() - startedAt).toBeLessThan(500)
  })
})

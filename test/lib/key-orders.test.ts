import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Json, jsonbText, toJson } from '../../src/lib/json.ts'
import { inKeyOrder, keyOrdersText } from '../../src/lib/key-orders.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'

test('no order is stored for an object whose order jsonb preserves', () => {
  const kept = [null, 1, [], {}, { only: 1 }, { id: 1, name: 'A', places: [{ a: 1, bb: 2 }] }, { 10: 1, 9: 2 }]
  expect(kept.map(keyOrdersText)).toEqual(kept.map(() => null))
  expect(keyOrdersText({ b: 1, a: undefined })).toBeNull()
})

test('an order is stored once, even if many objects have it', () => {
  const list = Array.from({ length: 1000 }, (_, id) => ({ name: 'A', id, more: { id, a: 1 } }))
  expect(JSON.parse(keyOrdersText(list) ?? '')).toHaveLength(2)
})

test('a list may be as long as a result', () => {
  expect(keyOrdersText([{ b: 1, a: 2 }, Array(500_000).fill(0)])).toBe('[["b","a"]]')
})

test('a value without orders stays unchanged', () => {
  expect(JSON.stringify(inKeyOrder({ a: 1, bb: [{ b: 1 }] }, null))).toBe('{"a":1,"bb":[{"b":1}]}')
})

describe.skipIf(!hasPostgres)('a value that went through jsonb', () => {
  let db: Database
  let drop: () => Promise<void>
  beforeAll(async () => {
    const created = await createTestDatabase()
    drop = created.drop
    db = await openDatabase({ url: created.url, dataDirectory: '' })
  })
  afterAll(async () => {
    await db?.close()
    await drop?.()
  })

  test('is restored exactly if the same keys were in the same order', async () => {
    const key = fc.oneof(fc.constantFrom('id', 'name', 'ärger', '10', '9', '', '__proto__', '💥', 'z'), fc.string())
    const { value } = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, 1, 'text'),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(key, tie('value'), { maxKeys: 6 }).map((object) => toJson(object)),
      ),
    }))
    await fc.assert(
      fc.asyncProperty(value.filter(isOfOneOrder), async (given) => {
        const [row] = await db.query<{ value: Json; orders: unknown }>({
          text: 'SELECT $1::jsonb AS value, $2::jsonb AS orders',
          values: [jsonbText(given), keyOrdersText(given)],
        } as never)
        expect(JSON.stringify(inKeyOrder(row?.value ?? null, row?.orders))).toBe(JSON.stringify(given))
      }),
      { numRuns: 300 },
    )
  })
})

/** Returns whether no two objects in the value have the same keys in different orders. */
function isOfOneOrder(value: Json): boolean {
  const orders = new Map<string, string>()
  const isIn = (part: Json): boolean => {
    if (typeof part !== 'object' || part === null) return true
    if (!Array.isArray(part)) {
      const keys = Object.keys(part)
      const name = JSON.stringify(keys.toSorted())
      const order = JSON.stringify(keys)
      if ((orders.get(name) ?? order) !== order) return false
      orders.set(name, order)
    }
    return Object.values(part).every(isIn)
  }
  return isIn(value)
}

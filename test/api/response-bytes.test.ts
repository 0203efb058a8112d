import { describe, expect, test } from 'vitest'
import { auditSchema, auditTable } from '../support/response-audit.ts'

const MOST_RESPONSE_BYTES = 8 * 1024 * 1024

describe('what others can make long in a response', () => {
  const audit = auditSchema()

  test('is classified for every field of the schema, with the limit that holds it', () => {
    expect(audit.unclassified).toEqual([])
  })

  test('is classified for no field that is gone', () => {
    expect(audit.outdated).toEqual([])
  })

  test('fits a response as long as it is a single value with a limit of its own', () => {
    const single = audit.fields.filter(({ kind, mostItems }) => kind !== 'page' && kind !== 'object' && mostItems === 1)
    const tooLarge = single.filter(({ mostBytes }) => mostBytes !== null && mostBytes > MOST_RESPONSE_BYTES)
    expect(tooLarge).toEqual([])
  })

  test('stands in a table, the worst for a byte of the request first', () => {
    const table = auditTable(audit.fields, MOST_RESPONSE_BYTES)
    expect(table).toContain('| `Message.text` | text |')
    if (process.env['AUDIT'] === 'print') console.log(table)
  })
})

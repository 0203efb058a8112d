import { describe, expect, test } from 'vitest'
import { auditSchema, auditTable } from '../support/response-audit.ts'

const MOST_RESPONSE_BYTES = 8 * 1024 * 1024

describe('content in a response that other users can make long', () => {
  const audit = auditSchema()

  test('is classified for every field of the schema, with the limit that bounds it', () => {
    expect(audit.unclassified).toEqual([])
  })

  test('is not classified for removed fields', () => {
    expect(audit.outdated).toEqual([])
  })

  test('fits a response if it is a single value with its own limit', () => {
    const single = audit.fields.filter(({ kind, mostItems }) => kind !== 'page' && kind !== 'object' && mostItems === 1)
    const tooLarge = single.filter(({ mostBytes }) => mostBytes !== null && mostBytes > MOST_RESPONSE_BYTES)
    expect(tooLarge).toEqual([])
  })

  test('is listed in a table, ordered by response bytes per request byte', () => {
    const table = auditTable(audit.fields, MOST_RESPONSE_BYTES)
    expect(table).toContain('| `Message.text` | text |')
    if (process.env['AUDIT'] === 'print') console.log(table)
  })
})

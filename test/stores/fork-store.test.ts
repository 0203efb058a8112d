import { expect, test } from 'vitest'
import { type CopiedTable, columnsOf, rulesOf } from '../../src/stores/fork-store.ts'

/** Columns whose ids are the same in a copy and in its original. */
const KEPT: Partial<Record<CopiedTable, string[]>> = {
  Message: ['actingAdminId'],
  ToolCall: ['modelCallId', 'approverIds', 'escalateToIds', 'claimedById', 'answeredById'],
  Decision: ['humanId'],
}

const rules = rulesOf({ fromId: 'spc_1', intoId: 'spc_2', atSeq: 1, agentIds: [] })

test.each(Object.keys(rules) as CopiedTable[])(
  'the copy of a row of %s contains no id of the original except those listed here',
  (table) => {
    const ids = columnsOf(table).filter((name) => /^id$|Ids?$/.test(name))
    const unruled = ids.filter((name) => !(name in rules[table]))
    expect(unruled).toEqual(KEPT[table] ?? [])
  },
)

import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { checkRow } from '../../src/operation/imported-rows.ts'
import {
  type Column,
  MOVED_TABLES,
  type MovedTable,
  specOf,
  TABLES_THAT_STAY,
} from '../../src/operation/moved-tables.ts'

interface Field {
  name: string
  type: string
  isNullable: boolean
  hasDefault: boolean
}

const SCHEMA = await readFile('prisma/schema.prisma', 'utf8')
const MODELS = new Map(
  [...SCHEMA.matchAll(/^model (\w+) \{(.*?)^\}/gms)].map(([, name = '', body = '']): [string, Field[]] => [
    name,
    [...body.matchAll(/^ {2}(\w+)\s+(\w+)(\[\]|\?)?(.*)$/gm)].map(([, field = '', type = '', mark, rest = '']) => ({
      name: field,
      type: `${type}${mark === '[]' ? '[]' : ''}`,
      isNullable: mark === '?',
      // If a list is omitted, it is empty.
      hasDefault: rest.includes('@default'),
    })),
  ]),
)
const TYPES: Record<string, string> = {
  String: 'text',
  Int: 'int4',
  Float: 'float8',
  Boolean: 'bool',
  DateTime: 'timestamptz',
  Json: 'jsonb',
  'String[]': 'text[]',
}
const fieldsOf = (table: string) => (MODELS.get(table) ?? []).filter(({ type }) => !MODELS.has(type.replace('[]', '')))
const TABLES = Object.keys(MOVED_TABLES) as MovedTable[]

/** For each type, values that no column of that type may have. */
const JUNK: Record<Column['type'], unknown[]> = {
  text: [5, true, {}, [], 'with\0NUL', 'x'.repeat(20_000_000)],
  int4: ['1', 1.5, -1, 2 ** 31, Number.NaN, {}, []],
  float8: ['1', -1, Number.NaN, Number.POSITIVE_INFINITY, {}],
  bool: ['true', 1, {}],
  timestamptz: ['yesterday', 'now', 'infinity', '2026-99-99T00:00:00Z', 5, {}],
  jsonb: [JSON.parse('['.repeat(300) + ']'.repeat(300))],
  'text[]': ['x', [1], [null], {}, ['with\0NUL']],
}

describe('the tables of export and import, compared with the data model', () => {
  test('every table is either moved or stays', () => {
    expect([...TABLES, ...TABLES_THAT_STAY].toSorted()).toEqual([...MODELS.keys()].toSorted())
  })

  test.each(TABLES)('every column of %s is moved, constant, or secret', (table) => {
    const { columns, fixed, secret } = specOf(table)
    const known = [...Object.keys(columns), ...Object.keys(fixed), ...secret]
    expect(known.toSorted()).toEqual(
      fieldsOf(table)
        .map(({ name }) => name)
        .toSorted(),
    )
  })

  test.each(TABLES)('every column of %s has the type of the data model', (table) => {
    const expected = fieldsOf(table)
      .filter(({ name }) => name in specOf(table).columns)
      .map(({ name, type, isNullable, hasDefault }) => {
        // A row that does not belong to the space is left out.
        const mayBeEmpty = isNullable && specOf(table).columns[name]?.refersTo?.otherwise !== 'leave out'
        return [name, TYPES[type] ?? 'text', mayBeEmpty, hasDefault]
      })
    const actual = expected.map(([name]) => {
      const { type, isNullable, hasDefault } = specOf(table).columns[String(name)] as Column
      return [name, type, isNullable, hasDefault]
    })
    expect(actual).toEqual(expected)
  })

  test('sealed and hashed columns and notification addresses are secret or stay', () => {
    const moved = TABLES.flatMap((table) => Object.keys(specOf(table).columns).map((column) => `${table}.${column}`))
    expect(
      moved.filter(
        (column) =>
          !column.startsWith('File.') && /sealed|hash|secret|notify(?!Level)|headerNames|token(Id)?$/i.test(column),
      ),
    ).toEqual([])
  })

  test.each(TABLES)('no column of %s accepts a value of another type', (table) => {
    const taken = Object.entries(specOf(table).columns).flatMap(([name, { type, faultOf }]) =>
      JUNK[type]
        .filter((junk) => faultOf(junk) === null)
        .map((junk) => `${name}: ${JSON.stringify(junk).slice(0, 50)}`),
    )
    expect(taken).toEqual([])
  })

  test.each(TABLES)('every id in %s is complete and of its kind', (table) => {
    const whole = newId('whk')
    const [, digits = ''] = whole.split('_')
    const bad = [
      whole,
      '',
      'hum_',
      `hum_${digits}f`,
      `hum_${digits.slice(1)}`,
      `HUM_${digits}`,
      `hum_${digits} `,
      `x hum_${digits}`,
      'hum',
    ]
    const named = Object.entries(specOf(table).columns).filter(
      ([name]) => /(^id|Id|Ids)$/.test(name) && !['externalId', 'modelCallId'].includes(name),
    )
    for (const [name, { type, faultOf }] of named)
      for (const id of bad) expect([name, faultOf(type === 'text[]' ? [id] : id)]).not.toEqual([name, null])
  })

  test.each<[string, MovedTable, Record<string, unknown>, string]>([
    ['an agent with the id of a human', 'Entity', { id: newId('hum'), kind: 'AGENT', name: 'A' }, 'match the kind'],
    [
      'a human who is being erased',
      'Entity',
      {
        id: newId('hum'),
        kind: 'HUMAN',
        name: 'A',
        formerly: { model: 'm', mind: 'STATELESS', toolset: 'ACTIVE_SPACE' },
      },
      'erasure',
    ],
    [
      'an agent that signs in',
      'Entity',
      { id: newId('agt'), kind: 'AGENT', name: 'A', externalId: 'me' },
      'externalId',
    ],
    ['somebody without a name', 'Entity', { id: newId('hum'), kind: 'HUMAN', name: ' ' }, 'name'],
    ['a row without an id', 'Entity', { kind: 'HUMAN', name: 'A' }, 'id is missing'],
    ['a message of a part that there is not', 'Message', messageWith([{ type: 'html', html: 'x' }]), 'parts'],
    ['a message of a text that is none', 'Message', messageWith([{ type: 'text', text: 5 }]), 'parts'],
    ['a tool with the name of a built-in one', 'AgentTool', toolWith({ name: 'send_message' }), 'built-in'],
    ['a tool with another address than of the web', 'AgentTool', toolWith({ url: 'file:///etc/passwd' }), 'http'],
    ['a tool with an address that it does not call', 'AgentTool', toolWith({ execution: 'SPACE' }), 'URL'],
    ['a tool whose policy is none', 'AgentTool', toolWith({ approval: { quorum: 0 } }), 'approval'],
  ])('%s is refused', (_, table, row, reason) => {
    const checked = checkRow(table, row)
    expect(checked).toEqual({ type: 'refused', reason: expect.stringContaining(reason) })
  })

  test('secrets and unknown columns are left out with a reason, and constant columns get their constant', () => {
    const given = { ...toolWith({}), headersSealed: 'v1.x', headerNames: ['authorization'], shellCommand: 'rm' }
    const checked = checkRow('AgentTool', given)
    expect(checked).toMatchObject({ type: 'row', leftOut: [{ column: 'headersSealed' }, { column: 'shellCommand' }] })
    expect(checked.type === 'row' && checked.row).toEqual({ ...toolWith({}), headerNames: [] })
  })

  test('an imported run has ended, holds no claim and counts towards no limit', () => {
    const run = {
      id: newId('run'),
      agentId: newId('agt'),
      status: 'QUEUED',
      triggerType: 'SPACE_MESSAGE',
      triggerSpaceId: newId('spc'),
      triggerSummary: '',
      depth: 0,
      rootId: newId('msg'),
      claimableAt: '2026-01-01T00:00:00Z',
      usageDay: '2026-01-01',
      triggerServiceId: newId('acc'),
    }
    expect(checkRow('Run', run)).toMatchObject({
      row: { status: 'CANCELED', stopReason: 'GONE', claimableAt: null, usageDay: null, triggerServiceId: null },
    })
  })
})

function messageWith(parts: unknown[]) {
  return {
    id: newId('msg'),
    spaceId: newId('spc'),
    seq: 1,
    senderId: newId('hum'),
    status: 'COMPLETE',
    parts,
    rootId: newId('msg'),
    depth: 0,
  }
}

function toolWith(more: Record<string, unknown>) {
  return {
    agentId: 'agt_00000000000000000000000000000000',
    name: 'lookup',
    position: 0,
    description: '',
    inputSchema: {},
    execution: 'HTTP',
    visible: false,
    timeoutMs: 1000,
    url: 'https://example.com/',
    ...more,
  }
}

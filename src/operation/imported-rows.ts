import { checkUrl } from '../agents/outgoing-request.ts'
import { checkToolName, isBuiltInTool, MCP_NAME_SEPARATOR } from '../agents/tool-names.ts'
import { messageOf } from '../lib/errors.ts'
import { checkName } from '../lib/validate.ts'
import { ENDED_RUN_STATUSES, FINAL_MESSAGE_STATUSES, SETTLED_CALL_STATUSES } from '../rules/statuses.ts'
import { mayBeOlder } from '../tools/built-in-tools.ts'
import { type Column, MOVED_TABLES, type MovedTable, specOf } from './moved-tables.ts'

type Row = Record<string, unknown>

/** A column that is not imported. */
export interface LeftOutColumn {
  column: string
  reason: string
}

/** A valid row, or the reason why the row is rejected. */
export type CheckedRow = { type: 'row'; row: Row; leftOut: LeftOutColumn[] } | { type: 'refused'; reason: string }

export const isMovedTable = (table: unknown): table is MovedTable =>
  typeof table === 'string' && Object.hasOwn(MOVED_TABLES, table)

const UNKNOWN_COLUMN = 'the column is unknown in this version'
const SECRET_COLUMN = 'a secret is never imported'

/**
 * Checks the types of the columns and the rules of the table, and keeps only columns that are imported. Does not read
 * from the database.
 */
export function checkRow(table: MovedTable, given: unknown): CheckedRow {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return refused('the row is not an object')
  const { columns, fixed } = specOf(table)
  const known = Object.entries(given).filter(([name]) => Object.hasOwn(columns, name))
  const row: Row = Object.fromEntries(known)
  const fault = faultOfColumns(columns, row) ?? RULES[table]?.(row) ?? null
  if (fault !== null) return refused(fault)
  return { type: 'row', row: { ...(ENDED[table]?.(row) ?? row), ...fixed }, leftOut: leftOutOf(table, given) }
}

function faultOfColumns(columns: Record<string, Column>, row: Row): string | null {
  for (const [name, { isNullable, hasDefault, faultOf }] of Object.entries(columns)) {
    const value = row[name]
    if (value === undefined && !isNullable && !hasDefault) return `${name} is missing`
    if (value === null && !isNullable) return `${name} must not be null`
    const fault = value == null ? null : faultOf(value)
    if (fault !== null) return `${name} ${fault}`
  }
  return null
}

/** Returns the columns that have a value but are not imported. Columns with a fixed value are not included. */
function leftOutOf(table: MovedTable, given: object): LeftOutColumn[] {
  const { columns, fixed, secret } = specOf(table)
  return Object.entries(given)
    .filter(([name, value]) => value !== null && !Object.hasOwn(columns, name) && !Object.hasOwn(fixed, name))
    .map(([column]) => ({ column, reason: secret.includes(column) ? SECRET_COLUMN : UNKNOWN_COLUMN }))
}

const refused = (reason: string): CheckedRow => ({ type: 'refused', reason })

/** Rules that concern a whole row. */
const RULES: Partial<Record<MovedTable, (row: Row) => string | null>> = {
  Entity: ({ id, kind, name, formerly, externalId }) => {
    if (String(id).startsWith('agt_') !== (kind === 'AGENT')) return 'the id does not match the kind'
    if (kind === 'AGENT' && externalId != null) return 'an agent must not have an externalId'
    // The column `formerly` is set while a human is being erased.
    if (kind === 'HUMAN' && formerly != null) return 'a human whose erasure is in progress is not imported'
    return faultIn(() => checkName(String(name), 'name'))
  },
  Space: ({ name }) => faultIn(() => checkName(String(name), 'name')),
  AgentTool({ name, execution, url }) {
    if (isBuiltInTool(String(name)) && !mayBeOlder(String(name))) return 'a built-in tool has this name'
    if ((execution === 'HTTP') !== (url != null)) return 'an HTTP tool must have a URL, and other tools must not'
    return faultIn(() => [checkToolName(String(name), 'name'), url == null ? null : checkUrl(String(url), 'url')])
  },
  McpServer({ name, url }) {
    if (String(name).includes(MCP_NAME_SEPARATOR)) return 'the name contains "__"'
    return faultIn(() => [checkToolName(String(name), 'name'), checkUrl(String(url), 'url')])
  },
}

function faultIn(check: () => unknown): string | null {
  try {
    check()
    return null
  } catch (error) {
    return messageOf(error)
  }
}

const isOver = (status: unknown, over: readonly string[]) => over.includes(String(status))

/** Changes rows that were active at the time of the export to a final state. */
const ENDED: Partial<Record<MovedTable, (row: Row) => Row>> = {
  Run: (row) =>
    isOver(row['status'], ENDED_RUN_STATUSES)
      ? row
      : { ...row, status: 'CANCELED', stopReason: 'GONE', finishedAt: new Date().toISOString() },
  ToolCall: (row) =>
    isOver(row['status'], SETTLED_CALL_STATUSES)
      ? row
      : {
          ...row,
          status: 'CANCELED',
          settledAt: new Date().toISOString(),
          ...(row['approvalState'] === 'PENDING' ? { approvalState: 'CANCELED' } : {}),
        },
  // Decisions by people of another server are not valid on this server.
  StandingGrant: (row) => (row['revokedAt'] == null ? { ...row, revokedAt: new Date().toISOString() } : row),
  Message: (row) => (isOver(row['status'], FINAL_MESSAGE_STATUSES) ? row : { ...row, status: 'INTERRUPTED' }),
}

import { Mind, Toolset, TriggerType } from '../generated/prisma/enums.ts'
import { type IdPrefix, prefixOf } from '../lib/ids.ts'
import { isObject, isTooDeep, jsonBytes } from '../lib/json.ts'

export type MovedTable =
  | 'Entity'
  | 'Agent'
  | 'AgentTool'
  | 'McpServer'
  | 'Space'
  | 'FormerMember'
  | 'StandingGrant'
  | 'GrantDecision'
  | 'Chain'
  | 'Run'
  | 'RunSpace'
  | 'Step'
  | 'ToolCall'
  | 'Decision'
  | 'Message'
  | 'MessageVersion'
  | 'MessageReaction'
  | 'File'
  | 'ThreadReader'
  | 'ThreadTurn'
  | 'Outcome'
  | 'RootUsage'
  | 'Membership'

/** The type and rules of a column in an export. */
export interface Column {
  /** PostgreSQL's type name, with `[]` for a list. */
  type: 'text' | 'int4' | 'float8' | 'bool' | 'timestamptz' | 'jsonb' | 'text[]'
  isNullable: boolean
  /** Whether the column has a default, so that rows of an older export can omit the column. */
  hasDefault: boolean
  /** Returns the fault of a value that is not null; null if the value is valid. */
  faultOf(value: unknown): string | null
  /**
   * The table of the row to which the column refers. If the export does not contain that row, the import sets the
   * column to null or skips the row.
   */
  refersTo?: { table: MovedTable; otherwise: 'null' | 'leave out' }
  /** For a list of ids: the table with the rows. The import removes ids whose rows are missing from the export. */
  listsOnly?: MovedTable
}

/** How a table is exported and imported. Every column belongs to exactly one of the three groups. */
export interface MovedTableSpec {
  columns: Record<string, Column>
  /** Columns that get this value in every import. */
  fixed: Record<string, null | number | boolean | string | []>
  /** Columns that are neither exported nor imported: secrets, and values encrypted with this server's key. */
  secret: readonly string[]
  /** The columns of the key of a row. */
  key: readonly string[]
}

export const LARGEST_ROW_JSON_BYTES = 16 * 1024 * 1024
export const LARGEST_INT = 2_147_483_647

type Check = (value: unknown) => string | null

export const column = (type: Column['type'], faultOf: Check): Column => ({
  type,
  isNullable: false,
  hasDefault: false,
  faultOf,
})
export const nullable = (one: Column): Column => ({ ...one, isNullable: true })
export const defaulted = (one: Column): Column => ({ ...one, hasDefault: true })
export const to = (one: Column, table: MovedTable, otherwise: 'null' | 'leave out' = 'leave out'): Column => ({
  ...one,
  refersTo: { table, otherwise },
})

export const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0')
export const text = (most = LARGEST_ROW_JSON_BYTES) =>
  column('text', (value) =>
    isText(value) && value.length <= most ? null : `must be a string of at most ${most} characters`,
  )
export const oneOf = (values: object) => {
  const names = Object.values(values)
  return column('text', (value) => (names.includes(value) ? null : `must be one of ${names.join(', ')}`))
}
export const id = (...prefixes: IdPrefix[]) =>
  column('text', (value) =>
    isId(value, prefixes) ? null : `must be an id ${prefixes.map((prefix) => `${prefix}_…`).join(' or ')}`,
  )
export const isId = (value: unknown, prefixes: readonly IdPrefix[]) => {
  const prefix = isText(value) ? prefixOf(value) : null
  return prefix !== null && prefixes.includes(prefix)
}
export const integer = (least = 0, most = LARGEST_INT) =>
  column('int4', (value) =>
    Number.isInteger(value) && Number(value) >= least && Number(value) <= most
      ? null
      : `must be a whole number from ${least} to ${most}`,
  )
export const amount = () =>
  column('float8', (value) => (Number.isFinite(value) && Number(value) >= 0 ? null : 'must be a number of at least 0'))
export const boolean = () => column('bool', (value) => (typeof value === 'boolean' ? null : 'must be true or false'))
export const time = () =>
  column('timestamptz', (value) =>
    isText(value) && value.length <= 40 && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))
      ? null
      : 'must be a time like 2026-01-31T12:00:00Z',
  )
export const json = (faultOf: Check = () => null) =>
  column('jsonb', (value) => {
    if (isTooDeep(value) || jsonBytes(value) > LARGEST_ROW_JSON_BYTES) return 'is nested too deeply or too large'
    return faultOf(value)
  })
export const ids = (...prefixes: IdPrefix[]) =>
  column('text[]', (value) =>
    Array.isArray(value) && value.length <= 10_000 && value.every((one) => isId(one, prefixes))
      ? null
      : `must be a list of ids ${prefixes.map((prefix) => `${prefix}_…`).join(' or ')}`,
  )
export const texts = () =>
  column('text[]', (value) => (Array.isArray(value) && value.every(isText) ? null : 'must be a list of strings'))

export const object = json((value) => (isObject(value) ? null : 'must be an object'))
export const array = json((value) => (Array.isArray(value) ? null : 'must be a list'))
export const arrayOfTexts = json((value) =>
  Array.isArray(value) && value.every(isText) ? null : 'must be a list of strings',
)

export const parts = json((value) =>
  Array.isArray(value) && value.every(isPart) ? null : 'must be a list of message parts',
)
export function isPart(part: unknown): boolean {
  if (!isObject(part) || (part['unfinished'] !== undefined && part['unfinished'] !== true)) return false
  const known = PART_FIELDS[String(part['type'])]
  if (known === undefined || Object.keys(part).some((key) => !['type', 'unfinished', ...known].includes(key)))
    return false
  if (part['type'] === 'text') return isText(part['text'])
  if (part['type'] === 'tool') return isId(part['toolCallId'], ['tcl'])
  return isId(part['fileId'], ['fil']) && isText(part['name']) && isText(part['mediaType'])
}
/** The fields of each type of MessagePart (src/rules/message.ts). */
const PART_FIELDS: Record<string, string[]> = {
  text: ['text'],
  tool: ['toolCallId'],
  file: ['fileId', 'name', 'mediaType'],
}

export const ORIGIN_TEXTS = ['triggerName', 'triggerSpaceId', 'triggerSpaceName', 'triggerSenderName', 'triggerMessage']
export const origin = json((value) => {
  const isOrigin =
    isObject(value) &&
    value['triggerType'] !== undefined &&
    Object.keys(value).every((key) => key === 'triggerType' || ORIGIN_TEXTS.includes(key))
  if (!isOrigin) return 'must be a message origin'
  if (!Object.values(TriggerType).includes(value['triggerType'] as never)) return 'must have a triggerType'
  return ORIGIN_TEXTS.every((key) => value[key] === undefined || value[key] === null || isText(value[key]))
    ? null
    : 'must contain strings'
})

export const formerly = json((value) =>
  isObject(value) &&
  isText(value['model']) &&
  Object.values(Mind).includes(value['mind'] as never) &&
  Object.values(Toolset).includes(value['toolset'] as never) &&
  Object.keys(value).length === 3
    ? null
    : 'must be { model, mind, toolset } of a deleted agent',
)

export const POLICY = ['quorum', 'approverIds', 'expiresInSeconds', 'escalateAfterSeconds', 'escalateToIds', 'patient']
/** The value is an ApprovalPolicy (src/agents/approval-policy.ts). */
export const policy = json((value) => {
  if (!isObject(value) || Object.keys(value).some((key) => !POLICY.includes(key)) || !isNatural(value['quorum']))
    return 'must be an approval policy'
  for (const key of ['approverIds', 'escalateToIds'] as const) {
    const named = value[key]
    if (named != null && !(Array.isArray(named) && named.length > 0 && named.every((one) => isId(one, ['hum']))))
      return `must name humans in ${key}`
  }
  for (const key of ['expiresInSeconds', 'escalateAfterSeconds'] as const)
    if (value[key] != null && !isNatural(value[key])) return `must have whole seconds in ${key}`
  return value['patient'] === undefined || value['patient'] === true ? null : 'must have `patient` true or omitted'
})
export const isNatural = (value: unknown) =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= LARGEST_INT

export const places = defaulted(ids('spc'))
export const askers = defaulted(ids('hum'))
export const createdAt = defaulted(time())
export const tokens = defaulted(integer())

import {
  AddableBy,
  ApprovalState,
  EntityKind,
  MessageStatus,
  Mind,
  OutcomeKind,
  Routing,
  RunStatus,
  RunStopReason,
  ToolCallStatus,
  ToolExecution,
  Toolset,
  TriggerType,
} from '../generated/prisma/enums.ts'
import { type IdPrefix, prefixOf } from '../lib/ids.ts'
import { isTooDeep, jsonBytes } from '../lib/json.ts'

/** The type and rules of a column in an export. */
export interface Column {
  /** PostgreSQL's name of the type, with `[]` for a list. */
  type: 'text' | 'int4' | 'float8' | 'bool' | 'timestamptz' | 'jsonb' | 'text[]'
  isNullable: boolean
  /** The column has a default, so a row of an older export may omit it. */
  hasDefault: boolean
  /** Returns what is wrong with a value that is not null; null if it is valid. */
  faultOf(value: unknown): string | null
  /**
   * The column refers to a row of the export. If that row is missing, the value becomes null or the row is left out.
   */
  refersTo?: { table: MovedTable; otherwise: 'null' | 'leave out' }
  /** For a list: ids of rows that the export does not contain are removed. */
  listsOnly?: MovedTable
}

/** How a table is exported and imported. Every column of the data model is in one of the three groups. */
export interface MovedTableSpec {
  columns: Record<string, Column>
  /** Columns that are always imported with this value. */
  fixed: Record<string, null | number | boolean | string | []>
  /** Columns that are neither exported nor imported: secrets, and values encrypted with this server's key. */
  secret: readonly string[]
  /** The columns that identify a row. */
  key: readonly string[]
}

const LARGEST_ROW_JSON_BYTES = 16 * 1024 * 1024
const LARGEST_INT = 2_147_483_647

type Check = (value: unknown) => string | null

const column = (type: Column['type'], faultOf: Check): Column => ({
  type,
  isNullable: false,
  hasDefault: false,
  faultOf,
})
const nullable = (one: Column): Column => ({ ...one, isNullable: true })
const defaulted = (one: Column): Column => ({ ...one, hasDefault: true })
const to = (one: Column, table: MovedTable, otherwise: 'null' | 'leave out' = 'leave out'): Column => ({
  ...one,
  refersTo: { table, otherwise },
})

const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0')
const text = (most = LARGEST_ROW_JSON_BYTES) =>
  column('text', (value) =>
    isText(value) && value.length <= most ? null : `must be a string of at most ${most} characters`,
  )
const oneOf = (values: object) => {
  const names = Object.values(values)
  return column('text', (value) => (names.includes(value) ? null : `must be one of ${names.join(', ')}`))
}
const id = (...prefixes: IdPrefix[]) =>
  column('text', (value) =>
    isId(value, prefixes) ? null : `must be an id ${prefixes.map((prefix) => `${prefix}_…`).join(' or ')}`,
  )
const isId = (value: unknown, prefixes: readonly IdPrefix[]) => {
  const prefix = isText(value) ? prefixOf(value) : null
  return prefix !== null && prefixes.includes(prefix)
}
const integer = (least = 0, most = LARGEST_INT) =>
  column('int4', (value) =>
    Number.isInteger(value) && Number(value) >= least && Number(value) <= most
      ? null
      : `must be a whole number from ${least} to ${most}`,
  )
const amount = () =>
  column('float8', (value) => (Number.isFinite(value) && Number(value) >= 0 ? null : 'must be a number of at least 0'))
const boolean = () => column('bool', (value) => (typeof value === 'boolean' ? null : 'must be true or false'))
const time = () =>
  column('timestamptz', (value) =>
    isText(value) && value.length <= 40 && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))
      ? null
      : 'must be a time like 2026-01-31T12:00:00Z',
  )
const json = (faultOf: Check = () => null) =>
  column('jsonb', (value) => {
    if (isTooDeep(value) || jsonBytes(value) > LARGEST_ROW_JSON_BYTES) return 'is nested too deep or too large'
    return faultOf(value)
  })
const ids = (...prefixes: IdPrefix[]) =>
  column('text[]', (value) =>
    Array.isArray(value) && value.length <= 10_000 && value.every((one) => isId(one, prefixes))
      ? null
      : `must be a list of ids ${prefixes.map((prefix) => `${prefix}_…`).join(' or ')}`,
  )
const texts = () =>
  column('text[]', (value) => (Array.isArray(value) && value.every(isText) ? null : 'must be a list of strings'))

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const object = json((value) => (isObject(value) ? null : 'must be an object'))
const array = json((value) => (Array.isArray(value) ? null : 'must be a list'))
const arrayOfTexts = json((value) => (Array.isArray(value) && value.every(isText) ? null : 'must be a list of strings'))

const parts = json((value) => (Array.isArray(value) && value.every(isPart) ? null : 'must be a list of message parts'))
function isPart(part: unknown): boolean {
  if (!isObject(part) || (part['unfinished'] !== undefined && part['unfinished'] !== true)) return false
  const known = part['type'] === 'text' ? 'text' : 'toolCallId'
  if (Object.keys(part).some((key) => !['type', 'unfinished', known].includes(key))) return false
  return part['type'] === 'text' ? isText(part['text']) : part['type'] === 'tool' && isId(part['toolCallId'], ['tcl'])
}

const ORIGIN_TEXTS = ['triggerName', 'triggerSpaceId', 'triggerSpaceName', 'triggerSenderName', 'triggerMessage']
const origin = json((value) => {
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

const formerly = json((value) =>
  isObject(value) &&
  isText(value['model']) &&
  Object.values(Mind).includes(value['mind'] as never) &&
  Object.values(Toolset).includes(value['toolset'] as never) &&
  Object.keys(value).length === 3
    ? null
    : 'must be { model, mind, toolset } of a deleted agent',
)

const POLICY = ['quorum', 'approverIds', 'expiresInSeconds', 'escalateAfterSeconds', 'escalateToIds']
/** ApprovalPolicy (src/agents/approval-policy.ts). */
const policy = json((value) => {
  if (!isObject(value) || Object.keys(value).some((key) => !POLICY.includes(key)) || !isNatural(value['quorum']))
    return 'must be an approval policy'
  for (const key of ['approverIds', 'escalateToIds'] as const) {
    const named = value[key]
    if (named != null && !(Array.isArray(named) && named.length > 0 && named.every((one) => isId(one, ['hum']))))
      return `must name humans in ${key}`
  }
  for (const key of ['expiresInSeconds', 'escalateAfterSeconds'] as const)
    if (value[key] != null && !isNatural(value[key])) return `must have whole seconds in ${key}`
  return null
})
const isNatural = (value: unknown) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= LARGEST_INT

const places = defaulted(ids('spc'))
const askers = defaulted(ids('hum'))
const createdAt = defaulted(time())
const tokens = defaulted(integer())

/** In an order in which the rows can be written. */
export const MOVED_TABLES = {
  Entity: {
    key: ['id'],
    columns: {
      id: id('hum', 'agt'),
      kind: oneOf(EntityKind),
      name: text(400),
      externalId: nullable(text(1000)),
      createdAt,
      goneAt: nullable(time()),
      formerly: nullable(formerly),
    },
    fixed: {},
    secret: [],
  },
  Agent: {
    key: ['id'],
    columns: {
      id: to(id('agt'), 'Entity'),
      description: nullable(text()),
      instructions: text(),
      model: text(1000),
      fallbackModels: defaulted(texts()),
      modelSettings: nullable(object),
      mind: oneOf(Mind),
      toolset: oneOf(Toolset),
      maxSteps: integer(1),
      maxToolCalls: nullable(integer(1)),
      tokenBudget: nullable(integer(1)),
      maxConcurrentRuns: integer(1),
      phases: defaulted(array),
      cycle: nullable(object),
      budget: nullable(object),
      paused: defaulted(boolean()),
      addableBy: defaulted(oneOf(AddableBy)),
    },
    fixed: { cycleCount: 0, firstCycle: 0, restsUntil: null },
    secret: ['notifyUrl', 'notifySecretSealed'],
  },
  AgentTool: {
    key: ['agentId', 'name'],
    columns: {
      agentId: to(id('agt'), 'Agent'),
      name: text(64),
      position: integer(),
      description: text(),
      inputSchema: object,
      execution: oneOf(ToolExecution),
      visible: boolean(),
      timeoutMs: integer(1),
      timeoutGiven: defaulted(boolean()),
      url: nullable(text(2048)),
      approval: nullable(policy),
      resultSchema: nullable(json()),
      mayReceiveConfidential: defaulted(boolean()),
    },
    fixed: { headerNames: [] },
    secret: ['headersSealed'],
  },
  McpServer: {
    key: ['agentId', 'name'],
    columns: {
      agentId: to(id('agt'), 'Agent'),
      name: text(64),
      position: integer(),
      url: text(2048),
      allowedTools: texts(),
      restricted: defaulted(boolean()),
      fingerprints: defaulted(object),
      listing: nullable(array),
      approval: nullable(policy),
      approvalTools: nullable(arrayOfTexts),
      mayReceiveConfidential: defaulted(boolean()),
      confidentialTools: nullable(arrayOfTexts),
    },
    fixed: { headerNames: [] },
    secret: ['headersSealed'],
  },
  Space: {
    key: ['id'],
    columns: {
      id: id('spc'),
      name: text(400),
      description: nullable(text()),
      routing: oneOf(Routing),
      adminAgentId: to(nullable(id('agt')), 'Entity', 'null'),
      lastSeq: defaulted(integer()),
      lastPickedId: to(nullable(id('agt')), 'Entity', 'null'),
      lastPickedJoinedAt: nullable(time()),
      budget: nullable(object),
      firstSeq: defaulted(integer(1)),
      version: defaulted(integer()),
      confidential: defaulted(boolean()),
      createdAt,
      creatorId: to(nullable(id('hum')), 'Entity', 'null'),
    },
    fixed: { deletedAt: null },
    secret: [],
  },
  FormerMember: {
    key: ['spaceId', 'entityId'],
    columns: { spaceId: to(id('spc'), 'Space'), entityId: to(id('hum', 'agt'), 'Entity') },
    fixed: {},
    secret: [],
  },
  Chain: {
    key: ['id'],
    columns: {
      id: id('chn'),
      spaceId: to(id('spc'), 'Space'),
      depth: defaulted(integer()),
      mentionedPairs: defaulted(arrayOfTexts),
      label: places,
      createdAt,
    },
    fixed: { holderId: null, holderRunId: null, replyStack: [] },
    secret: [],
  },
  Run: {
    key: ['id'],
    columns: {
      id: id('run'),
      agentId: to(id('agt'), 'Entity'),
      status: oneOf(RunStatus),
      attempt: defaulted(integer()),
      dedupKey: nullable(text(1000)),
      triggerType: oneOf(TriggerType),
      triggerName: nullable(text()),
      triggerSpaceId: to(id('spc'), 'Space'),
      deepestSpaceId: to(nullable(id('spc')), 'Space', 'null'),
      triggerMessageId: to(nullable(id('msg')), 'Message', 'null'),
      triggerSenderId: to(nullable(id('hum', 'agt')), 'Entity', 'null'),
      triggerSummary: text(),
      triggerPayload: nullable(json()),
      activeSpaceId: to(nullable(id('spc')), 'Space', 'null'),
      enteredSeq: nullable(integer()),
      stepCount: tokens,
      inputTokens: tokens,
      cachedInputTokens: tokens,
      outputTokens: tokens,
      usageEstimated: defaulted(boolean()),
      costNanos: nullable(defaulted(amount())),
      summary: nullable(text()),
      error: nullable(text()),
      stopReason: nullable(oneOf(RunStopReason)),
      stoppedById: to(nullable(id('hum', 'agt')), 'Entity', 'null'),
      retryOfId: to(nullable(id('run')), 'Run', 'null'),
      depth: integer(),
      rootId: id('msg', 'trg', 'plf', 'pln', 'run'),
      parentRunId: to(nullable(id('run')), 'Run', 'null'),
      chainId: to(nullable(id('chn')), 'Chain', 'null'),
      wokenBy: nullable(object),
      places,
      label: places,
      askers,
      state: defaulted(object),
      queuedAt: createdAt,
      startedAt: nullable(time()),
      finishedAt: nullable(time()),
    },
    fixed: {
      fruitlessAttempts: 0,
      claimableAt: null,
      leaseUntil: null,
      worker: null,
      setbacks: 0,
      deadlineAt: null,
      // Usage is counted on the server where it happened, and the triggering service does not exist here.
      timeLeftMs: null,
      usageDay: null,
      usageSpaceId: null,
      usageModel: null,
      triggerServiceId: null,
      forgets: [],
    },
    secret: [],
  },
  RunSpace: {
    key: ['runId', 'spaceId'],
    columns: { runId: to(id('run'), 'Run'), spaceId: to(id('spc'), 'Space') },
    fixed: {},
    secret: [],
  },
  Step: {
    key: ['id'],
    columns: {
      id: id('stp'),
      runId: to(id('run'), 'Run'),
      index: integer(),
      model: text(1000),
      failedModels: defaulted(array),
      instructions: nullable(text()),
      messagesKept: integer(),
      followsResponse: defaulted(boolean()),
      messagesAdded: array,
      activeTools: texts(),
      assistant: json(),
      keyOrders: nullable(json()),
      finishReason: nullable(text(1000)),
      inputTokens: tokens,
      cachedInputTokens: tokens,
      outputTokens: tokens,
      usageEstimated: defaulted(boolean()),
      costNanos: nullable(amount()),
      msToFirstChunk: nullable(integer()),
      durationMs: nullable(integer()),
      withheld: nullable(array),
      label: places,
      startedAt: time(),
    },
    fixed: {},
    secret: [],
  },
  ToolCall: {
    key: ['id'],
    columns: {
      id: id('tcl'),
      runId: id('run'),
      agentId: to(id('agt'), 'Entity'),
      stepIndex: integer(),
      modelCallId: text(1000),
      toolName: text(200),
      execution: nullable(oneOf(ToolExecution)),
      status: oneOf(ToolCallStatus),
      input: nullable(json()),
      output: nullable(json()),
      outputKeyOrders: nullable(json()),
      error: nullable(text()),
      messageId: to(nullable(id('msg')), 'Message', 'null'),
      spaceId: to(nullable(id('spc')), 'Space', 'null'),
      state: nullable(object),
      places,
      label: places,
      createdAt,
      settledAt: nullable(time()),
      approval: nullable(object),
      approvalState: nullable(oneOf(ApprovalState)),
      approverIds: { ...askers, listsOnly: 'Entity' },
      escalateToIds: { ...askers, listsOnly: 'Entity' },
      escalatedAt: nullable(time()),
      inputDigest: nullable(text(1000)),
      claimedById: to(nullable(id('hum')), 'Entity', 'null'),
      answeredById: to(nullable(id('hum')), 'Entity', 'null'),
      answeredByService: nullable(text(1000)),
    },
    fixed: { expiresAt: null, approvalExpiresAt: null, escalatesAt: null, carryAt: null, carryAttempt: 0 },
    secret: [],
  },
  Decision: {
    key: ['toolCallId', 'humanId', 'inputDigest'],
    columns: {
      toolCallId: to(id('tcl'), 'ToolCall'),
      humanId: to(id('hum'), 'Entity'),
      inputDigest: text(1000),
      approve: boolean(),
      reason: nullable(text(10_000)),
      at: time(),
      counted: nullable(boolean()),
    },
    fixed: {},
    secret: [],
  },
  Message: {
    key: ['id'],
    columns: {
      id: id('msg'),
      spaceId: to(id('spc'), 'Space'),
      seq: integer(1),
      senderId: to(id('hum', 'agt'), 'Entity'),
      status: oneOf(MessageStatus),
      parts,
      mentionedAgentId: to(nullable(id('agt')), 'Entity', 'null'),
      runId: to(nullable(id('run')), 'Run', 'null'),
      runPostKey: nullable(text(1000)),
      composite: defaulted(boolean()),
      idempotencyKey: nullable(text(1000)),
      rootId: id('msg', 'trg', 'plf', 'pln', 'run'),
      depth: integer(),
      origin: nullable(origin),
      places,
      label: places,
      askers,
      routedAt: nullable(time()),
      createdAt,
    },
    fixed: {},
    secret: [],
  },
  Outcome: {
    key: ['messageId', 'agentId'],
    columns: {
      messageId: to(id('msg'), 'Message'),
      agentId: to(id('agt'), 'Entity'),
      kind: oneOf(OutcomeKind),
      reason: nullable(text()),
      error: nullable(text()),
      runId: to(nullable(id('run')), 'Run', 'null'),
    },
    fixed: {},
    secret: [],
  },
  RootUsage: {
    key: ['rootId'],
    columns: {
      rootId: to(id('msg'), 'Message'),
      inputTokens: defaulted(amount()),
      cachedInputTokens: defaulted(amount()),
      outputTokens: defaulted(amount()),
      costNanos: defaulted(amount()),
      isUnpriced: defaulted(boolean()),
      isEstimated: defaulted(boolean()),
    },
    fixed: { tellAt: null },
    secret: [],
  },
  Membership: {
    key: ['spaceId', 'entityId'],
    columns: {
      spaceId: to(id('spc'), 'Space'),
      entityId: to(id('hum', 'agt'), 'Entity'),
      joinedAt: createdAt,
      lastReadSeq: defaulted(integer()),
    },
    fixed: {},
    secret: [],
  },
} satisfies Record<string, MovedTableSpec>

/**
 * Tables that are not exported: consciousness and notes, plans and their firings, tokens and webhooks, ledgers, the
 * audit log, and the server's own state.
 */
export const TABLES_THAT_STAY = [
  'Memory',
  'Goal',
  'Plan',
  'PlanFiring',
  'Cycle',
  'InboxEvent',
  'Notification',
  'AccessToken',
  'Webhook',
  'Invitation',

  'ModelProviderHealth',
  'DailyUsage',
  'AuditEntry',
]

export type MovedTable =
  | 'Entity'
  | 'Agent'
  | 'AgentTool'
  | 'McpServer'
  | 'Space'
  | 'FormerMember'
  | 'Chain'
  | 'Run'
  | 'RunSpace'
  | 'Step'
  | 'ToolCall'
  | 'Decision'
  | 'Message'
  | 'Outcome'
  | 'RootUsage'
  | 'Membership'

export const specOf = (table: MovedTable): MovedTableSpec => MOVED_TABLES[table]

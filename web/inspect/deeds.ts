import type { ConsoleAuditLogQuery, ConsoleNamesQuery } from '../../generated/graphql.ts'

export type AuditEntry = NonNullable<ConsoleAuditLogQuery['auditLog']>['edges'][number]['node']
/** The object with this id; null if it no longer exists. */
export type Named = NonNullable<ConsoleNamesQuery['nodes'][number]>

const TOOL = 'tool:'

/** Whether the page omits an action: earlier versions recorded it every few seconds. */
export const isNoise = (action: string) => action === 'setTyping'

/** Actions whose names are not a verb and its object. */
const ACTIONS: Record<string, readonly [verb: string, object: string]> = {
  actAs: ['act as', ''],
  createHuman: ['add', 'person'],
  invite: ['invite', 'somebody by email'],
  markRead: ['read', 'messages'],
  react: ['react to', 'message'],
  readOpenApi: ['read', 'OpenAPI document'],
  runPlanNow: ['run', 'plan'],
  setModelProvider: ['set up', 'model provider'],
  setNotificationSettings: ['change', 'notification settings'],
  setNotifyLevel: ['set', 'notification level'],
}

/** Verbs for which people use other words. */
const VERBS: Record<string, string> = {
  decide: 'decide on',
  trigger: 'wake',
  try: 'try out',
  update: 'change',
}

const PAST: Record<string, string> = {
  forget: 'forgot',
  read: 'read',
  rerun: 'reran',
  reset: 'reset',
  run: 'ran',
  send: 'sent',
  set: 'set',
  stop: 'stopped',
  submit: 'submitted',
  wake: 'woke',
}

/** `act as` as “acted as”, `retry` as “retried”. */
function pastOf(phrase: string): string {
  const [verb = '', ...rest] = phrase.split(' ')
  const regular = verb.endsWith('e') ? `${verb}d` : `${verb.replace(/(?<=[^aeiou])y$/, 'i')}ed`
  return [PAST[verb] ?? regular, ...rest].join(' ')
}

const NOUNS: Record<string, string> = { entity: 'member', human: 'person', mcp: 'MCP', oauth: 'OAuth', url: 'URL' }
const spaced = (name: string) =>
  name
    .split(/(?=[A-Z])/)
    .map((word) => NOUNS[word.toLowerCase()] ?? word.toLowerCase())
    .join(' ')

function partsOf(action: string): readonly [verb: string, object: string] {
  const [verb = '', ...object] = action.split(/(?=[A-Z])/)
  return ACTIONS[action] ?? [VERBS[verb] ?? verb, spaced(object.join(''))]
}

/** “an agent”, “a person”; “goals”. */
function withArticle(object: string): string {
  if (object === '' || /s$|^somebody/.test(object)) return object
  return `${/^(?:[aeiou]|MCP)/i.test(object) ? 'an' : 'a'} ${object}`
}

/** The kinds of objects, by the prefix of their ids. */
const KINDS: Record<string, string> = {
  acc: 'access token',
  agt: 'agent',
  gol: 'goal',
  grt: 'standing grant',
  hum: 'person',
  msg: 'message',
  pln: 'plan',
  run: 'run',
  spc: 'space',
  tcl: 'tool call',
  whk: 'webhook',
}

/** How the object of an action belongs to another object, which is its target. Others are “the draft of Iris”. */
const BELONGS: Record<string, string> = { add: 'to', connect: 'to', create: 'for', propose: 'for', remove: 'from' }

/**
 * Describes an action before the name of its target: `updateAgent` as “changed agent”, `addMember` as “added a member to”, or without
 * a target as “changed an agent”. `refused`: “tried to change agent”.
 */
export function wordsOfDeed(
  { action, refused }: Pick<AuditEntry, 'action' | 'refused'>,
  target: { id: string; named: Named } | null,
): string {
  if (action.startsWith(TOOL)) {
    const tool = action.slice(TOOL.length).replaceAll('_', ' ')
    return `${refused ? 'tried to use' : 'used'} the tool “${tool}”${target === null ? '' : ' on'}`
  }
  const [verb, object] = partsOf(action)
  return [refused ? `tried to ${verb}` : pastOf(verb), objectOf(verb, object, target)].filter(Boolean).join(' ')
}

function objectOf(verb: string, object: string, target: { id: string; named: Named } | null): string {
  if (target === null) return object === '' ? 'somebody' : withArticle(object)
  const isTarget = object === '' || object.endsWith(KINDS[target.id.slice(0, 3)] ?? object)
  if (isTarget) return saysItsKind(target.named) ? '' : object
  const preposition = BELONGS[verb]
  return preposition === undefined ? `the ${object} of` : `${withArticle(object)} ${preposition}`
}

/** Describes an action without its actor and target, for lists. */
export function wordsOfAction(action: string): string {
  const words = wordsOfDeed({ action, refused: false }, null)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns the console's URL for an object; null if it has no page. */
export function addressOf(id: string, named: Named | undefined): string | null {
  if (id.startsWith('agt_')) return `/agents/${id}`
  if (id.startsWith('spc_')) return `/spaces/${id}`
  if (id.startsWith('run_')) return `/runs/${id}`
  if (id.startsWith('hum_')) return `/people/${id}`
  if (id.startsWith('acc_')) return '/people'
  if (named === undefined) return null
  if ('space' in named) return `/spaces/${named.space.id}#${id}`
  if ('toolName' in named) return named.run === null ? null : `/runs/${named.run.id}`
  if (id.startsWith('pln_') && 'agent' in named && 'id' in named.agent) return `/agents/${named.agent.id}/plans`
  if (id.startsWith('whk_')) return '/people'
  return null
}

/** Whether `nameOf` says what the object is: “a call of order_fleece”, but “Garden”. */
const saysItsKind = (named: Named) =>
  'space' in named || 'toolName' in named || 'service' in named || 'scope' in named || isRun(named)

const isRun = (named: Named) => 'agent' in named && !('name' in named)

/** Whether an object has more than its id. */
export const hasName = (named: Named) => nameOf(named.id, named) !== named.id

/** Returns a readable name for an object. */
export function nameOf(id: string, named: Named): string {
  if ('space' in named) return `a message of ${named.sender.name} in ${named.space.name}`
  if ('toolName' in named) return `a call of ${named.toolName}`
  if ('service' in named) return `the webhook of ${named.service}`
  if ('scope' in named) return `a token of ${named.human?.name ?? named.serviceName ?? 'an operator'}`
  if ('description' in named) return named.description
  if ('name' in named) return named.name
  return 'agent' in named && 'name' in named.agent ? `${named.agent.name}’s run` : id
}

/** One input field by its path: an enum, a boolean, a number, or ids. */
export interface Detail {
  path: string
  values: readonly unknown[]
}

/**
 * Returns the input fields of an action that have a value, except its target, and the names of its text fields, whose values are
 * not recorded. Lists of objects are omitted.
 */
export function detailsOf({ detail, targetId }: Pick<AuditEntry, 'detail' | 'targetId'>): {
  shown: Detail[]
  texts: string[]
} {
  const shown: Detail[] = []
  const texts: string[] = []
  const walk = (part: object, within: string) => {
    const { fields, ...values } = part as Record<string, unknown>
    const given = Array.isArray(fields) ? fields.map(String) : []
    texts.push(...given.filter((name) => !(name in values)).map((name) => within + name))
    for (const [name, value] of Object.entries(values)) {
      if (isObject(value)) walk(value, `${within}${name}.`)
      else shown.push({ path: within + name, values: shownValues(name, value, targetId) })
    }
  }
  if (isObject(detail)) walk(detail, '')
  return { shown: shown.filter(({ values }) => values.length > 0), texts }
}

/** Returns nothing for a value that is absent, a list of objects, or the target. */
function shownValues(name: string, value: unknown, targetId: string | null): readonly unknown[] {
  if (name === ACTING) return [value ?? 'the operator']
  if (value === null || value === targetId) return []
  const all = Array.isArray(value) ? value : [value]
  return all.some(isObject) ? [] : all
}

/** The admin who acted as the actor; null for the operator. */
const ACTING = 'actingAdminId'

/** Returns a field for people, before its value: `expiresInSeconds` as “valid for”, `grant.agentIds` as “grant agents:”. */
export function labelOf(path: string): string {
  return path.endsWith('expiresInSeconds') ? 'valid for' : `${wordsOfField(path)}:`
}

/** Returns the name of a field in words. */
export function wordsOfField(path: string): string {
  const name = path.replace(/(?<=.)Ids$/, 's').replace(/(?<=.)(?:Id|Seconds)$/, '')
  return name.split('.').map(spaced).join(' ')
}

/** Returns a value that is not an id for people: `SPACE_TOOLS` as “space tools”, 86400 in a field of seconds as “1 day”. */
export function wordsOfValue(path: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number' && /Seconds$/.test(path)) return wordsOfSeconds(value)
  if (typeof value === 'string' && /^[A-Z][A-Z_]+$/.test(value)) return value.replaceAll('_', ' ').toLowerCase()
  return String(value)
}

const UNITS = [
  [86_400, 'day'],
  [3600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const

function wordsOfSeconds(seconds: number): string {
  const [length, unit] = UNITS.find(([size]) => seconds >= size && seconds % size === 0) ?? [1, 'second']
  const count = seconds / length
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const MOST_NAMED = 100

/** Returns the ids in entries whose names must be loaded, targets first. */
export function idsIn(entries: readonly AuditEntry[]): string[] {
  const targets = entries.flatMap(({ targetId }) => targetId ?? [])
  const others = entries.flatMap((entry) => detailsOf(entry).shown.flatMap(({ values }) => values.filter(isId)))
  return [...new Set([...targets, ...others])].slice(0, MOST_NAMED).sort()
}

export const isId = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z]{3}_[0-9a-f]{32}$/.test(value)

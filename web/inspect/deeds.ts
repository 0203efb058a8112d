import type { ConsoleAuditLogQuery, ConsoleNamesQuery } from '../../generated/graphql.ts'

export type AuditEntry = NonNullable<ConsoleAuditLogQuery['auditLog']>['edges'][number]['node']
/** The object with this id; null if it no longer exists. */
export type Named = NonNullable<ConsoleNamesQuery['nodes'][number]>

const TOOL = 'tool:'

/**
 * Past tense for an action that was performed, infinitive for one that was refused: “created agent”, “tried to
 * create agent”.
 */
const VERBS: Record<string, readonly [done: string, tried: string]> = {
  add: ['added', 'add'],
  claim: ['claimed', 'claim'],
  confirm: ['confirmed', 'confirm'],
  create: ['created', 'create'],
  decide: ['decided on', 'decide on'],
  delete: ['deleted', 'delete'],
  erase: ['erased', 'erase'],
  forget: ['forgot', 'forget'],
  mark: ['marked', 'mark'],
  redeem: ['redeemed', 'redeem'],
  remove: ['removed', 'remove'],
  reset: ['reset', 'reset'],
  retry: ['retried', 'retry'],
  revoke: ['revoked', 'revoke'],
  rotate: ['rotated', 'rotate'],
  run: ['ran', 'run'],
  send: ['sent', 'send'],
  set: ['set', 'set'],
  stop: ['stopped', 'stop'],
  submit: ['submitted', 'submit'],
  trigger: ['woke', 'wake'],
  update: ['changed', 'change'],
}

/** Describes an action: `updateAgent` as “changed agent”, or “tried to change agent”. */
export function wordsOfDeed({ action, refused }: Pick<AuditEntry, 'action' | 'refused'>): string {
  if (action.startsWith(TOOL)) return `${refused ? 'tried to use' : 'used'} the tool ${action.slice(TOOL.length)}`
  const [verb = '', ...object] = action.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
  const [done, tried] = VERBS[verb] ?? [verb, verb]
  return [...(refused ? ['tried to', tried] : [done]), ...object].join(' ')
}

/** Returns the console's URL for an object; null if it has no page. */
export function addressOf(id: string, named: Named | undefined): string | null {
  if (id.startsWith('agt_')) return `/agents/${id}`
  if (id.startsWith('spc_')) return `/spaces/${id}`
  if (id.startsWith('run_')) return `/runs/${id}`
  if (/^(hum|acc)_/.test(id)) return '/people'
  if (named === undefined) return null
  if ('space' in named) return `/spaces/${named.space.id}#${id}`
  if ('toolName' in named) return named.run === null ? null : `/runs/${named.run.id}`
  if (id.startsWith('pln_') && 'agent' in named && 'id' in named.agent) return `/agents/${named.agent.id}/plans`
  if (id.startsWith('whk_')) return '/people'
  return null
}

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
 * Returns the input fields of an action, except its target, and the names of its text fields, whose values are
 * not recorded.
 */
export function detailsOf({ detail, targetId }: AuditEntry): { shown: Detail[]; texts: string[] } {
  const shown: Detail[] = []
  const texts: string[] = []
  const walk = (part: object, within: string) => {
    const { fields, ...values } = part as Record<string, unknown>
    const given = Array.isArray(fields) ? fields.map(String) : []
    texts.push(...given.filter((name) => !(name in values)).map((name) => within + name))
    for (const [name, value] of Object.entries(values)) {
      if (isObject(value)) walk(value, `${within}${name}.`)
      else if (value !== targetId) shown.push({ path: within + name, values: Array.isArray(value) ? value : [value] })
    }
  }
  if (isObject(detail)) walk(detail, '')
  return { shown, texts }
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

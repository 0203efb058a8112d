import type { ConsoleAuditLogQuery, ConsoleNamesQuery } from '../../generated/graphql.ts'

export type AuditEntry = NonNullable<ConsoleAuditLogQuery['auditLog']>['edges'][number]['node']
/** The object with this id; null if it no longer exists. */
export type Named = NonNullable<ConsoleNamesQuery['nodes'][number]>

const TOOL = 'tool:'

/** Returns whether the page omits an action, because earlier versions recorded it every few seconds. */
export const isNoise = (action: string) => action === 'setTyping'

/** The action of the entry that already reports a sign-in, by the `by` field of the sign-in entry. */
const WAYS_IN: Record<string, string> = { invitation: 'redeemInvitation', mail: 'acceptInvitation' }
/** The maximum time between two entries of one request. */
const MOST_BETWEEN_MS = 10_000

/** Omits sign-in entries that another entry already reports, because the session was opened by an invitation. */
export function withoutRepeats(entries: readonly AuditEntry[]): AuditEntry[] {
  return entries.filter(({ action, actor, at, detail }) => {
    const by = action === 'signIn' && isObject(detail) ? String((detail as Record<string, unknown>)['by']) : ''
    return !entries.some(
      (other) =>
        other.action === WAYS_IN[by] &&
        other.actor?.id === actor?.id &&
        Math.abs(Date.parse(other.at) - Date.parse(at)) < MOST_BETWEEN_MS,
    )
  })
}

/**
 * The actions as sentences without their actors. `{target:a space}` is replaced by the target of the entry, and `{entityId:a
 * member}` by a field of its details. The words after the colon are used if the object is not known.
 */
const DEEDS: Record<string, string> = {
  acceptInvitation: 'accept an invitation by email',
  actAs: 'act as {target:a person}',
  addMember: 'add {entityId:a member} to {target:a space}',
  addPushSubscription: 'turn on push messages in a browser',
  authorizeMcpServer: 'authorize an MCP server for {target:an agent}',
  claimToolCall: 'take charge of {target:a tool call}',
  confirmAgentCard: 'confirm the changed card of {target:an agent}',
  confirmEmail: 'confirm an email address',
  confirmMcpTools: 'confirm new or changed MCP tools of {target:an agent}',
  connectMcpServer: 'list the tools of an MCP server for {target:an agent}',
  createAccessToken: 'create {target:an access token}',
  createAgent: 'create {target:an agent}',
  createHuman: 'add {target:a person}',
  createInvitation: 'invite {humanId:a person} by a link',
  createJoinLink: 'create a join link for {spaceId:a space}',
  createPlan: 'create {target:a plan} for {agentId:an agent}',
  createSpace: 'create {target:a space}',
  createWebhook: 'create {target:a webhook} for {agentId:an agent}',
  decideStandingGrant: 'decide on a standing grant',
  decideToolCall: 'decide on {target:a tool call}',
  decideToolCalls: 'decide on several tool calls',
  deleteAgent: 'delete {target:an agent}',
  deleteGoals: 'delete goals of {target:an agent}',
  deleteJob: 'delete a failed job',
  deleteMemories: 'delete memories of {target:an agent}',
  deleteMessage: 'delete {target:a message}',
  deleteModelProvider: 'delete {name:a model provider}',
  deletePlan: 'delete {target:a plan}',
  deleteSpace: 'delete {target:a space}',
  deleteWebhook: 'delete {target:a webhook}',
  editMessage: 'edit {target:a message}',
  endSession: 'end a session',
  eraseHuman: 'erase {target:a person}',
  forgetCycle: 'delete a think cycle of an agent',
  forgetSpace: 'make {agentId:an agent} forget {target:a space}',
  forkSpace: 'copy {target:a space}',
  invite: 'invite somebody by email',
  joinSpace: 'join {target:a space} by a join link',
  markRead: 'mark messages as read in {target:a space}',
  proposeStandingGrant: 'propose a standing grant for {target:a tool call}',
  publishAgentDraft: 'publish the draft of {target:an agent}',
  react: 'react to {target:a message}',
  readOpenApi: 'read an OpenAPI document',
  redeemInvitation: 'sign in with an invitation',
  redeemStartLink: 'sign in with the link that the server printed',
  removeInboxEvent: 'remove an event from the inbox of an agent',
  removeMember: 'remove {entityId:a member} from {target:a space}',
  removePushSubscription: 'turn off push messages in a browser',
  rerunStep: 'rerun {target:a run} from one of its steps',
  resetConsciousness: 'reset the earlier thoughts of {target:an agent}',
  restoreAgentVersion: 'restore an earlier version of {target:an agent}',
  retryJob: 'retry a failed job',
  retryRun: 'retry {target:a run}',
  revokeAccessToken: 'revoke {target:an access token}',
  revokeInvitation: 'revoke an invitation',
  revokeJoinLink: 'revoke a join link',
  revokeStandingGrant: 'revoke a standing grant',
  rotateWebhookSecret: 'replace the secret of {target:a webhook}',
  runPlanNow: 'run {target:a plan} at once',
  sendMessage: 'post a message in {target:a space}',
  setGoals: 'change goals of {target:an agent}',
  setMemories: 'write memories of {target:an agent}',
  setModelProvider: 'set up {name:a model provider}',
  setNotificationSettings: 'change their own notification settings',
  setNotifyLevel: 'change their own notification level for {target:a space}',
  signIn: 'sign in',
  stopRun: 'stop {target:a run}',
  submitToolResult: 'answer {target:a tool call}',
  testModelProvider: 'test {name:a model provider}',
  triggerAgent: 'wake {target:an agent}',
  tryTool: 'try out a tool',
  updateAgent: 'change {target:an agent}',
  updateHuman: 'change {target:a person}',
  updatePlan: 'change {target:a plan}',
  updateSpace: 'change {target:a space}',
}

/** The actions by which the page can be filtered. */
export const ACTIONS: readonly string[] = [
  ...Object.keys(DEEDS),
  ...['stop_run', 'send_message', 'set_memories', 'set_goals'].map((tool) => TOOL + tool),
]

/**
 * Functions that return a more precise sentence for actions whose details say more than their names; null for the usual
 * sentence.
 */
const BY_DETAIL: Record<string, (detail: Record<string, unknown>, entry: Entry) => string | null> = {
  addMember: ({ entityId }, { actor }) => (entityId === actor?.id ? 'join {target:a space}' : null),
  claimToolCall: ({ release }) => (release === true ? 'release {target:a tool call}' : null),
  createHuman: ({ by }) => (by === 'oidc' ? 'sign in for the first time, through single sign-on' : null),
  decideStandingGrant: ({ approve }) => decision(approve, 'a standing grant'),
  decideToolCall: ({ approve }) => decision(approve, '{target:a tool call}'),
  decideToolCalls: ({ approve, toolCallIds }) =>
    Array.isArray(toolCallIds) ? decision(approve, `${toolCallIds.length} tool calls`) : null,
  endSession: ({ by }, { actor }) => {
    if (by === 'oidc') return 'end a session because the person signed out there'
    return actor === null ? null : 'sign out of a session'
  },
  eraseHuman: ({ messages }) => (messages === true ? 'erase {target:a person} and all messages of this person' : null),
  react: ({ on }) => (on === false ? 'take back a reaction to {target:a message}' : null),
  removeMember: ({ entityId }, { actor }) => (entityId === actor?.id ? 'leave {target:a space}' : null),
  signIn: (_, { serviceName, refused }) => (serviceName !== null && refused ? 'sign somebody in' : null),
  updateAgent: ({ asDraft, paused, fields }) => {
    if (asDraft === true) return 'save a draft of {target:an agent}'
    if (typeof paused !== 'boolean' || !isOnly(fields, 'paused')) return null
    return paused ? 'pause {target:an agent}' : 'resume {target:an agent}'
  },
  updateHuman: ({ by }, { actor, targetId }) => {
    if (by === 'oidc') return 'take over profile data from single sign-on'
    return actor !== null && actor.id === targetId ? 'change their own profile' : null
  },
  updatePlan: ({ enabled, fields }) => {
    if (typeof enabled !== 'boolean' || !isOnly(fields, 'enabled')) return null
    return enabled ? 'turn on {target:a plan}' : 'turn off {target:a plan}'
  },
}

const decision = (approve: unknown, object: string) =>
  typeof approve === 'boolean' ? `${approve ? 'approve' : 'deny'} ${object}` : null

/** Returns whether an input had no other field than this one and the id. */
const isOnly = (fields: unknown, name: string) =>
  Array.isArray(fields) && fields.every((field) => field === 'id' || field === name)

/** Fields that do not describe a change, or whose values appear in the sentence. */
const BESIDE = ['id', 'asDraft', 'enabled', 'paused', 'versionNote']
/** A form saves all its fields together, so a list longer than this does not say what was changed. */
const MOST_CHANGED = 4
const LIST = new Intl.ListFormat('en')

/** Returns a phrase with the changed fields: `change the name and tools of {target:an agent}`; null if there are none. */
function changeOf(action: string, { fields }: Record<string, unknown>): string | null {
  const object = /^change (\{target:.*)$/.exec(DEEDS[action] ?? '')?.[1]
  const names = Array.isArray(fields) ? fields.map(String).filter((name) => !BESIDE.includes(name)) : []
  if (object === undefined || names.length === 0) return null
  return `change the ${names.length > MOST_CHANGED ? 'settings' : LIST.format(names.map(wordsOfField))} of ${object}`
}

/** The fields whose values a sentence of `BY_DETAIL` contains. */
const DECISIVE = ['approve', 'asDraft', 'by', 'enabled', 'entityId', 'messages', 'on', 'paused', 'release']

const PAST: Record<string, string> = {
  forget: 'forgot',
  leave: 'left',
  make: 'made',
  read: 'read',
  rerun: 'reran',
  reset: 'reset',
  run: 'ran',
  send: 'sent',
  set: 'set',
  stop: 'stopped',
  submit: 'submitted',
  take: 'took',
  wake: 'woke',
  write: 'wrote',
}

/** Returns `act as` as “acted as”, `retry` as “retried”. */
function pastOf(phrase: string): string {
  const [verb = '', ...rest] = phrase.split(' ')
  const regular = verb.endsWith('e') ? `${verb}d` : `${verb.replace(/(?<=[^aeiou])y$/, 'i')}ed`
  return [PAST[verb] ?? regular, ...rest].join(' ')
}

const NOUNS: Record<string, string> = {
  entity: 'member',
  human: 'person',
  mcp: 'MCP',
  mind: 'memory',
  oauth: 'OAuth',
  url: 'URL',
}
const spaced = (name: string) =>
  name
    .split(/(?=[A-Z])/)
    .map((word) => NOUNS[word.toLowerCase()] ?? word.toLowerCase())
    .join(' ')

/** Adds an article where one is needed: “an agent”, “a person”, but “goals”. */
function withArticle(object: string): string {
  if (object === '' || object.endsWith('s')) return object
  return `${/^(?:[aeiou]|MCP)/i.test(object) ? 'an' : 'a'} ${object}`
}

/** Describes an action that only another version of the server has: `denyEntry` as “deny an entry”. */
function phraseOf(action: string): string {
  const [verb = '', ...object] = action.split(/(?=[A-Z])/)
  return `${verb} ${withArticle(spaced(object.join('')))}`.trim()
}

function phraseOfTool(action: string): string {
  return `use the tool “${action.slice(TOOL.length).replaceAll('_', ' ')}”`
}

type Entry = Pick<AuditEntry, 'action' | 'actor' | 'detail' | 'refused' | 'serviceName' | 'targetId'>

/** A part of a sentence: words, or the id of an object with the words to use if the object is not known. */
export type DeedPart = string | { id: string; words: string }

/**
 * Returns the part of a sentence that follows the actor's name: “added ‹Ada› to ‹Garden›”, or “tried to add …” if the server
 * refused.
 */
export function sentenceOf(entry: Entry): { parts: DeedPart[]; usedPaths: string[] } {
  const { action, targetId, refused } = entry
  const detail = isObject(entry.detail) ? (entry.detail as Record<string, unknown>) : {}
  const special = BY_DETAIL[action]?.(detail, entry) ?? null
  const phrase = action.startsWith(TOOL)
    ? `${phraseOfTool(action)}${targetId === null ? '' : ' on {target:something}'}`
    : (special ?? changeOf(action, detail) ?? DEEDS[action] ?? phraseOf(action))
  const usedPaths = special === null ? [] : [...DECISIVE]
  const partOf = (piece: string): DeedPart => {
    const [, path = '', words = ''] = HOLE.exec(piece) ?? []
    if (path === '') return piece
    const value = path === 'target' ? targetId : detail[path]
    usedPaths.push(path)
    if (isId(value)) return { id: value, words }
    return typeof value === 'string' && value !== '' && path !== 'target'
      ? `${words.replace(/^an? /, 'the ')} ${value}`
      : words
  }
  const inTense = refused ? `tried to ${phrase}` : pastOf(phrase)
  const parts = inTense.split(/(\{[^}]*\})/).filter((piece) => piece !== '')
  return { parts: parts.map(partOf), usedPaths }
}

const HOLE = /^\{(\w+):([^}]*)\}$/

/** Describes an action without its actor and objects, for lists: “Added a member to a space”. */
export function wordsOfAction(action: string): string {
  const phrase = action.startsWith(TOOL) ? phraseOfTool(action) : (DEEDS[action] ?? phraseOf(action))
  const words = pastOf(phrase.replace(/\{\w+:([^}]*)\}/g, '$1'))
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns the kind of object that an action changes, as a heading for lists: “Agents”. */
export function groupOfAction(action: string): string {
  if (action.startsWith(TOOL)) return 'Tools of agents'
  const holes = [...(DEEDS[action] ?? '').matchAll(/\{(\w+):([^}]*)\}/g)]
  const [, , words = ''] = holes.find(([, path]) => path === 'target') ?? holes[0] ?? []
  return GROUPS[words.replace(/^an? /, '')] ?? 'Other'
}

const GROUPS: Record<string, string> = {
  'access token': 'Access tokens',
  agent: 'Agents',
  message: 'Messages',
  'model provider': 'Model providers',
  person: 'People',
  plan: 'Plans',
  run: 'Runs',
  space: 'Spaces',
  'tool call': 'Tool calls',
  webhook: 'Webhooks',
}

/** The kinds of objects whose names need them, by the prefix of their ids: “the space Garden”, but “Ada”. */
const KINDS: Record<string, string> = { agt: 'agent', gol: 'goal', pln: 'plan', spc: 'space' }

/** Returns the words before the name of an object. */
export function wordsBefore(id: string, named: Named): string {
  const kind = saysItsKind(named) ? undefined : KINDS[id.slice(0, 3)]
  return kind === undefined ? '' : `the ${kind} `
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
  if ('service' in named) return `/agents/${named.agent.id}/wake`
  return null
}

/** Returns whether the name of an object already says what it is: true for “a call to order_fleece”, false for “Garden”. */
const saysItsKind = (named: Named) =>
  'space' in named || 'toolName' in named || 'service' in named || 'scope' in named || isRun(named)

const isRun = (named: Named) => 'agent' in named && !('name' in named)

/** Returns whether more than the id of an object is known. */
export const hasName = (named: Named) => nameOf(named.id, named) !== named.id

/** Returns a readable name for an object. */
export function nameOf(id: string, named: Named): string {
  if ('space' in named) return `a message of ${named.sender.name} in ${named.space.name}`
  if ('toolName' in named) return `a call to ${named.toolName}`
  if ('service' in named) return `the webhook of ${named.service}`
  if ('scope' in named) return `a token of ${named.human?.name ?? named.serviceName ?? 'an operator'}`
  if ('description' in named) return named.description
  if ('name' in named) return named.name
  return 'agent' in named && 'name' in named.agent ? `${named.agent.name}’s run` : id
}

/** One input field with its path. The values are an enum, a boolean, a number, or ids. */
export interface Detail {
  path: string
  values: readonly unknown[]
}

/**
 * Returns the input fields of an action that have a value, except its target. Leaves out lists of objects, and text fields,
 * whose values are not recorded.
 */
export function detailsOf({ detail, targetId }: Pick<AuditEntry, 'detail' | 'targetId'>): Detail[] {
  const shown: Detail[] = []
  const walk = (part: object, within: string) => {
    const { fields: _, ...values } = part as Record<string, unknown>
    for (const [name, value] of Object.entries(values)) {
      if (isObject(value)) walk(value, `${within}${name}.`)
      else shown.push({ path: within + name, values: shownValues(name, value, targetId) })
    }
  }
  if (isObject(detail)) walk(detail, '')
  return shown.filter(({ values }) => values.length > 0)
}

/** Returns the values to show for a field. Shows nothing for an absent value, `NONE`, a list of objects, or the target. */
function shownValues(name: string, value: unknown, targetId: string | null): readonly unknown[] {
  if (name === ACTING) return [value ?? 'the operator']
  if (name === 'asDraft' && value === false) return []
  if (value === null || value === 'NONE' || value === targetId) return []
  const all = Array.isArray(value) ? value : [value]
  return all.some(isObject) ? [] : all
}

/** The field with the admin who acted as the actor. It is null if the operator did. */
const ACTING = 'actingAdminId'

/**
 * Returns the words for a field that precede its value: `expiresInSeconds` as “valid for”, `grant.agentIds` as “grant agents:”.
 */
export function labelOf(path: string): string {
  if (path === ACTING) return 'done in this name by:'
  if (path === 'routing') return 'which agents wake:'
  if (path === 'atSeq') return 'up to message'
  if (path === 'step') return 'step'
  return path.endsWith('expiresInSeconds') ? 'valid for' : `${wordsOfField(path)}:`
}

/** Returns the name of a field in words. */
function wordsOfField(path: string): string {
  if (path.endsWith('mayReceiveConfidential')) return 'may receive confidential content'
  const name = path.replace(/(?<=.)Ids$/, 's').replace(/(?<=.)(?:Id|Seconds)$/, '')
  return name.split('.').map(spaced).join(' ')
}

const ROUTINGS: Record<string, string> = {
  BROADCAST: 'every agent',
  ADMIN: 'the admin agent',
  MENTION_CHAIN: 'one agent in turn',
}

/** Returns a value that is not an id in words: `SPACE_TOOLS` as “space tools”, 86400 in a field of seconds as “1 day”. */
export function wordsOfValue(path: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  // The API counts steps from 0, and the console from 1.
  if (typeof value === 'number' && path === 'step') return String(value + 1)
  if (typeof value === 'number' && /Seconds$/.test(path)) return wordsOfSeconds(value)
  if (path === 'routing') return ROUTINGS[String(value)] ?? String(value)
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

/** Returns the ids in the entries whose names must be loaded, targets first. */
export function idsIn(entries: readonly AuditEntry[]): string[] {
  const targets = entries.flatMap(({ targetId }) => targetId ?? [])
  const others = entries.flatMap((entry) => detailsOf(entry).flatMap(({ values }) => values.filter(isId)))
  return [...new Set([...targets, ...others])].slice(0, MOST_NAMED).sort()
}

export const isId = (value: unknown): value is string =>
  typeof value === 'string' && /^[a-z]{3}_[0-9a-f]{32}$/.test(value)

import { oneOf, type Random } from '../random-documents.ts'

/** Selections in a space whose results other members can make long. */
const HEAVY = [
  'messages(last: 100) { edges { node { text } } }',
  'messages(last: 100) { edges { node { id text sender { id name } } } }',
  'messages(last: 100) { edges { node { parts { ... on TextPart { text } ... on ToolCallPart { toolCall { input output error approval { decisions { reason human { name } } } } } } } } }',
  'messages(last: 100) { edges { node { outcomes { kind reason error agent { id name description } } } } }',
  'messages(last: 100) { edges { node { run { triggerSummary toolCalls { toolName input } children(first: 100) { edges { node { id } } } } } } }',
  'messages(last: 100) { edges { node { origin { triggerMessage triggerSenderName triggerSpaceName } waitingCall { input inputSchema } } } }',
  'members { id name ... on Agent { description activeRuns { id triggerSummary toolCalls { input } } } }',
  'agentsElsewhere { id name description }',
  'lastMessage { text space { lastMessage { text space { lastMessage { text space { lastMessage { text } } } } } } }',
  'firstUnreadMessage { text }',
]

const aliased = (count: number, field: string, first = 'a') =>
  Array.from({ length: count }, (_, n) => `${first}${n}: ${field}`).join(' ')
/** Returns a random number. Small numbers are more likely than large ones. */
const some = (random: Random, most: number) => Math.ceil(most ** random())

/** Selects a space under several aliases. */
export function heavySelection(random: Random, most = 60): string {
  return aliased(some(random, most), oneOf(random, HEAVY))
}

/**
 * Returns a query within or above the limits: heavy fields under many aliases, deep or wide selections, fragments,
 * introspection.
 */
export function heavyQuery(random: Random, spaceIds: readonly string[], ids: readonly string[]): string {
  const spaceId = oneOf(random, spaceIds)
  const many = some(random, 300)
  return oneOf<() => string>(random, [
    () => `{ space(id: "${spaceId}") { ${heavySelection(random)} } }`,
    () => `{ space(id: "${spaceId}") { ${heavySelection(random)} } }`,
    () => `{ ${aliased(some(random, 30), `space(id: "${spaceId}") { ${oneOf(random, HEAVY)} }`)} }`,
    () => `{ spaces(first: 100) { edges { node { ${heavySelection(random, 40)} } } } }`,
    () =>
      `{ nodes(ids: [${Array.from({ length: many }, () => `"${oneOf(random, ids)}"`).join(',')}]) { id ... on Message { text } ... on Run { triggerSummary toolCalls { input } } ... on ToolCall { input output error } } }`,
    () =>
      `{ ${aliased(some(random, 40), 'viewer { pendingToolCalls { input inputSchema resultSchema approval { decisions { reason } approvers { name } } } }')} }`,
    () =>
      `{ runs(first: 100) { edges { node { ${aliased(some(random, 40), 'toolCalls { input output error }')} } } } }`,
    () =>
      `{ agents(first: 100) { edges { node { ${aliased(some(random, 40), 'runs(first: 100) { edges { node { triggerSummary } } }')} } } } }`,
    () =>
      `{ ${aliased(some(random, 30), '__schema { types { name fields { name type { name ofType { name ofType { name } } } } } }')} }`,
    () => `{ ${'viewer { id scope } '.repeat(some(random, 2000))} }`,
    () => `query Q { ${'viewer { '.repeat(1)}${aliased(some(random, 5000), 'id')} } }`,
    () =>
      `{ space(id: "${spaceId}") { ...F0 } } ${Array.from({ length: 14 }, (_, n) => `fragment F${n} on Space { ${n < 13 ? `a${n}: lastMessage { space { ...F${n + 1} } } b${n}: lastMessage { space { ...F${n + 1} } }` : 'name'} }`).join(' ')}`,
    () => `{ viewer { ...A } } fragment A on Viewer { ...B } fragment B on Viewer { ...A }`,
    () => `{ a: ${'['.repeat(many * 20)} }`,
    () => `query (${Array.from({ length: many }, (_, n) => `$v${n}: Int = ${n}`).join(', ')}) { viewer { id } }`,
    () => `{ viewer { id ${'@include(if: true) '.repeat(many)} } }`,
    () => `# ${'x'.repeat(many * 1000)}\n{ viewer { id } }`,
  ])()
}

/** Returns a subscription with large events. */
export function heavySubscription(random: Random, spaceIds: readonly string[], runIds: readonly string[]): string {
  const spaceId = oneOf(random, spaceIds)
  return oneOf<() => string>(random, [
    () =>
      `subscription { spaceMessages(spaceId: "${spaceId}") { __typename cursor ... on MessagePosted { message { id text } } } }`,
    () =>
      `subscription { spaceMessages(spaceId: "${spaceId}") { __typename ... on MessagePosted { message { space { ${heavySelection(random, 40)} } } } } }`,
    () =>
      `subscription { spaceMessages(spaceId: "${spaceId}") { __typename ... on SpaceSnapshot { space { ${heavySelection(random, 40)} } } } }`,
    () =>
      `subscription { spaceMessages(spaceId: "${spaceId}") { __typename ... on MessagePartChanged { part { ... on ToolCallPart { toolCall { input approval { decisions { reason } } } } } } } }`,
    () =>
      `subscription { viewerEvents { __typename ... on ViewerSpaceChanged { space { ${heavySelection(random, 20)} } } ... on ViewerSnapshot { viewer { pendingToolCalls { input } } } } }`,
    () =>
      `subscription { agentActivity(spaceId: "${spaceId}") { runs { ${aliased(some(random, 30), 'toolCalls { input }')} } } }`,
    () =>
      `subscription { runEvents(runId: "${runIds.length > 0 ? oneOf(random, runIds) : 'run_x'}") { __typename cursor ... on RunToolCalled { toolCall { toolName input } } } }`,
  ])()
}

import { readFileSync } from 'node:fs'
import path from 'node:path'
import {
  buildSchema,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
} from 'graphql'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** The maximum number of JSON bytes for one UTF-16 unit: a control character is `\u0001`. */
const BYTES_A_UNIT = 6
const BYTES_OF: Record<string, number> = { Boolean: 5, Int: 11, Float: 24, DateTime: 26, ID: 42, StreamCursor: 64 }
const LARGEST_PAGE = constant('src/lib/page.ts', 'LARGEST_PAGE')

/**
 * The maximum length of a text in UTF-16 units: a constant of the code, or `counted` if a model writes the text and no rule
 * limits it.
 */
type TextLimit = readonly [file: string, name: string] | 'counted' | number

const NAME = ['src/lib/validate.ts', 'LONGEST_NAME'] as const
const MESSAGE = ['src/lib/validate.ts', 'LONGEST_MESSAGE'] as const
const INSTRUCTIONS = ['src/lib/validate.ts', 'LONGEST_INSTRUCTIONS'] as const
const KEY = ['src/lib/validate.ts', 'LONGEST_IDEMPOTENCY_KEY'] as const
const MODEL = ['src/agents/agent-settings.ts', 'LONGEST_MODEL'] as const
const URL_LIMIT = ['src/agents/outgoing-request.ts', 'LONGEST_URL'] as const
const REASON = ['src/flows/decide-call.ts', 'LONGEST_REASON'] as const

/**
 * Every field of type String, with its maximum length. For a field with a fixed vocabulary, this is the length of the longest
 * value. `*.field` stands for texts that the server writes: cursors, secrets, and error messages.
 */
const TEXTS: Record<string, TextLimit> = {
  '*.cursor': 100,
  '*.endCursor': 100,
  '*.message': 400,
  '*.notifySecret': 100,
  '*.secret': 100,
  '*.startCursor': 100,
  'AccessToken.serviceName': NAME,
  'Agent.description': ['src/agents/agent-settings.ts', 'LONGEST_DESCRIPTION'],
  'Agent.model': MODEL,
  'Agent.name': NAME,
  'AgentInternals.fallbackModels': MODEL,
  'AgentInternals.instructions': INSTRUCTIONS,
  'AgentInternals.notifyUrl': URL_LIMIT,
  'AgentOutcome.error': 'counted',
  'AgentOutcome.reason': REASON,
  'Approval.inputDigest': 64,
  'ApprovalDecision.reason': REASON,
  'AuditEntry.action': 100,
  'AuditEntry.serviceName': NAME,
  'BadInputError.field': 'counted',
  'ChainWaiter.reason': 'counted',
  'CallAuthorization.serverName': 64,
  'CallAuthorization.text': 400,
  'CallAuthorization.url': 'counted',
  'ConnectMcpServerPayload.authorizationUrl': 'counted',
  'ConnectMcpServerPayload.error': 'counted',
  'CreateInvitationPayload.url': 'counted',
  'Cycle.summary': 'counted',
  'FailedJob.error': 1000,
  'FailedJob.name': 24,
  'FailedModel.error': 'counted',
  'FailedModel.model': MODEL,
  'Goal.description': ['src/agents/goals.ts', 'LONGEST_DESCRIPTION'],
  'Human.email': ['src/lib/email.ts', 'LONGEST_ADDRESS'],
  'Human.externalId': ['src/agents/humans.ts', 'LONGEST_EXTERNAL_ID'],
  'Human.name': NAME,
  'Human.picture': ['src/rules/picture.ts', 'LONGEST_PICTURE'],
  'MailStatus.lastError': ['src/operation/mail-status.ts', 'LONGEST_ERROR'],
  'McpProblem.reason': 'counted',
  'McpProblem.toolName': 'counted',
  'McpServer.allowedTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'McpServer.alwaysAskTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'McpServer.approvalTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'McpServer.confidentialTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'McpServer.headerNames': ['src/agents/outgoing-request.ts', 'LONGEST_HEADERS'],
  'McpServer.name': NAME,
  'McpServer.url': URL_LIMIT,
  'McpTool.description': ['src/tools/mcp/definitions.ts', 'LONGEST_DESCRIPTION'],
  'McpTool.name': NAME,
  'Memory.key': ['src/agents/memories.ts', 'LONGEST_KEY'],
  'Memory.value': ['src/agents/memories.ts', 'LONGEST_VALUE'],
  'Message.idempotencyKey': KEY,
  'Message.text': MESSAGE,
  'MessageVersion.text': MESSAGE,
  'Reaction.emoji': 40,
  'MessageOrigin.triggerMessage': ['src/spaces/history.ts', 'LONGEST_ORIGIN'],
  'MessageOrigin.triggerName': NAME,
  'MessageOrigin.triggerSenderName': NAME,
  'MessageOrigin.triggerSpaceName': NAME,
  'MessageTextDelta.delta': MESSAGE,
  'MessageTextReplaced.text': MESSAGE,
  'ModelProvider.api': 24,
  'ModelProvider.baseUrl': 'counted',
  'ModelProvider.models': MODEL,
  'ModelProvider.name': NAME,
  'RemoteAgent.cardUrl': MODEL,
  'RemoteAgent.headerNames': ['src/agents/outgoing-request.ts', 'LONGEST_HEADERS'],
  'RemoteAgentCard.description': ['src/tools/a2a/card.ts', 'LONGEST_DESCRIPTION'],
  'RemoteAgentCard.fingerprint': 64,
  'RemoteAgentCard.name': ['src/tools/a2a/card.ts', 'LONGEST_CARD_NAME'],
  'RemoteAgentCard.skills': ['src/tools/a2a/card.ts', 'LONGEST_CARD_NAME'],
  'RemoteAgentCard.url': ['src/tools/a2a/card.ts', 'LONGEST_URL'],
  'RemoteAgentCard.version': ['src/tools/a2a/card.ts', 'LONGEST_CARD_NAME'],
  'OpenApiTool.description': ['src/tools/openapi/operations.ts', 'LONGEST_DESCRIPTION'],
  'OpenApiTool.method': 6,
  'OpenApiTool.name': ['src/agents/tool-names.ts', 'LONGEST_TOOL_NAME'],
  'OpenApiTool.operation': ['src/tools/openapi/operations.ts', 'LONGEST_OPERATION'],
  'OpenApiTool.problem': ['src/tools/openapi/operations.ts', 'LONGEST_PROBLEM'],
  'OpenApiTool.url': ['src/tools/openapi/operations.ts', 'LONGEST_URL'],
  'ModelProvider.notReadyReason': ['src/models/provider-status.ts', 'LONGEST_REASON'],
  'Plan.cron': ['src/plans/schedule.ts', 'LONGEST_CRON'],
  'Plan.instruction': ['src/plans/plans.ts', 'LONGEST_INSTRUCTION'],
  'Plan.name': NAME,
  'Plan.timeZone': 64,
  'Query.defaultModel': MODEL,
  'RateLimit.name': 24,
  'Invitation.email': ['src/lib/email.ts', 'LONGEST_ADDRESS'],
  'InvitePayload.email': ['src/lib/email.ts', 'LONGEST_ADDRESS'],
  'JoinLink.url': 'counted',
  'JoinableSpace.inviterName': NAME,
  'JoinableSpace.name': NAME,
  'Session.device': 100,
  'Run.error': 'counted',
  'RunInternals.hint': 600,
  'Run.summary': 'counted',
  'Run.triggerSummary': 'counted',
  'RunFailed.error': 'counted',
  'RunReasoningDelta.delta': 'counted',
  'RunTextDelta.delta': 'counted',
  'RunToolInputDelta.delta': 'counted',
  'RunToolInputDelta.toolName': 'counted',
  'Space.description': ['src/flows/create-space.ts', 'LONGEST_DESCRIPTION'],
  'Space.name': NAME,
  'StepRecord.activeTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'StepRecord.finishReason': 24,
  'StandingGrant.amountProperty': ['src/rules/standing-grants.ts', 'LONGEST_PROPERTY'],
  'StandingGrant.toolDigest': 64,
  'StandingGrant.toolName': 'counted',
  'StepRecord.instructions': 'counted',
  'StepRecord.model': MODEL,
  'DeleteModelProviderPayload.deletedName': NAME,
  'TestModelProviderPayload.text': ['src/models/models.ts', 'LONGEST_TEXT'],
  'TextPart.text': MESSAGE,
  'Tool.description': ['src/agents/custom-tools.ts', 'LONGEST_TOOL_DESCRIPTION'],
  'Tool.headerNames': ['src/agents/outgoing-request.ts', 'LONGEST_HEADERS'],
  'Tool.method': 6,
  'Tool.name': NAME,
  'Tool.url': URL_LIMIT,
  'ToolCall.answeredByService': NAME,
  'ToolCall.error': 'counted',
  'ToolCall.toolName': 'counted',
  'ToolPhase.activeTools': ['src/agents/mcp-servers.ts', 'LONGEST_TOOL_NAME'],
  'ToolPhase.model': MODEL,
  'TryToolPayload.error': 'counted',
  'UsageRow.model': MODEL,
  'Viewer.serviceName': NAME,
  'Webhook.serviceName': NAME,
  'Webhook.url': 'counted',
  'WhyStep.text': ['src/rules/why.ts', 'LONGEST_WHY_TEXT'],
  'AgentVersion.diff': 'counted',
  'AgentVersion.note': ['src/agents/agents.ts', 'LONGEST_NOTE'],
  'File.mediaType': 127,
  'File.name': ['src/lib/file-name.ts', 'LONGEST_NAME'],
  'File.thumbnailUrl': 'counted',
  'File.url': 'counted',
  'Human.timeZone': 64,
  'RemovePushSubscriptionPayload.removedEndpoint': ['src/rules/push-endpoint.ts', 'LONGEST_ENDPOINT'],
  'SearchHit.snippet': 400,
  'Viewer.pushPublicKey': 100,
}

/**
 * Fields of type JSON. An input has at most `LARGEST_JSON_BYTES`. The data that a run journals is limited only by the counter
 * of response bytes.
 */
const JSONS: Record<string, TextLimit> = {
  'AgentInternals.modelSettings': 1000,
  'AgentVersion.definition': 'counted',
  'AuditEntry.detail': ['src/lib/validate.ts', 'LARGEST_JSON_BYTES'],
  'Consciousness.messages': 'counted',
  'Cycle.messages': 'counted',
  'InboxEvent.payload': ['src/lib/validate.ts', 'LARGEST_JSON_BYTES'],
  'McpTool.inputSchema': ['src/tools/mcp/definitions.ts', 'LONGEST_SCHEMA'],
  'OpenApiTool.inputSchema': 'counted',
  'StandingGrant.inputSchema': ['src/flows/standing-grants.ts', 'LONGEST_SCHEMA'],
  'StepRecord.messages': 'counted',
  'StepRecord.response': 'counted',
  'ToolPhase.modelSettings': 1000,
  'Tool.inputSchema': ['src/agents/custom-tools.ts', 'LONGEST_SCHEMA'],
  'Tool.resultSchema': ['src/agents/custom-tools.ts', 'LONGEST_SCHEMA'],
  'ToolCall.input': ['src/lib/validate.ts', 'LARGEST_JSON_BYTES'],
  'ToolCall.inputSchema': ['src/agents/custom-tools.ts', 'LONGEST_SCHEMA'],
  'ToolCall.output': ['src/lib/validate.ts', 'LARGEST_JSON_BYTES'],
  'ToolCall.resultSchema': ['src/agents/custom-tools.ts', 'LONGEST_SCHEMA'],
  'TryToolPayload.output': 'counted',
}

/** Lists without pages, with their maximum number of items; `counted` if no rule limits them. */
const LISTS: Record<string, TextLimit> = {
  'MemberPresenceChanged.changes': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'SearchHit.matches': ['src/rules/snippet.ts', 'MOST_MATCHES'],
  'EndSessionPayload.endedSessionIds': ['src/access/sessions.ts', 'MOST_OF_VIEWER'],
  'Agent.activeRuns': 'counted',
  'AgentActivity.runs': 'counted',
  'AgentInternals.fallbackModels': ['src/agents/agent-settings.ts', 'MOST_FALLBACKS'],
  'AgentInternals.goals': ['src/agents/goals.ts', 'MOST_GOALS'],
  'AgentInternals.mcpServers': ['src/agents/mcp-servers.ts', 'MOST_SERVERS'],
  'AgentInternals.memories': ['src/agents/memories.ts', 'MOST_MEMORIES'],
  'AgentInternals.phases': ['src/agents/tool-phases.ts', 'MOST_PHASES'],
  'AgentInternals.plans': ['src/plans/plans.ts', 'MOST_PLANS'],
  'AgentInternals.tools': ['src/agents/custom-tools.ts', 'MOST_TOOLS'],
  'Approval.approvers': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Approval.decisions': 'counted',
  'ApprovalPolicy.approvers': ['src/agents/approval-policy.ts', 'MOST_NAMED'],
  'ApprovalPolicy.escalateTo': ['src/agents/approval-policy.ts', 'MOST_NAMED'],
  'Chain.replyStack': 100,
  'ConnectMcpServerPayload.tools': ['src/tools/mcp/definitions.ts', 'MOST_TOOLS'],
  'Cycle.confidentialTo': 'counted',
  'CycleSettings.urgentFrom': 'counted',
  'DecideToolCallsPayload.results': ['src/graphql/approval.ts', 'MOST_DECIDED_AT_ONCE'],
  'EditMessagePayload.runs': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Goal.confidentialTo': 'counted',
  'Invitation.spaces': ['src/flows/invite.ts', 'MOST_SPACES'],
  'McpServer.allowedTools': ['src/tools/mcp/definitions.ts', 'MOST_LISTED'],
  'McpServer.alwaysAskTools': ['src/tools/mcp/definitions.ts', 'MOST_LISTED'],
  'McpServer.approvalTools': ['src/tools/mcp/definitions.ts', 'MOST_LISTED'],
  'McpServer.confidentialTools': ['src/tools/mcp/definitions.ts', 'MOST_LISTED'],
  'McpServer.headerNames': ['src/agents/outgoing-request.ts', 'MOST_HEADERS'],
  'McpServer.problems': 'counted',
  'McpServer.tools': ['src/tools/mcp/definitions.ts', 'MOST_LISTED'],
  'Memory.confidentialTo': 'counted',
  'Message.mentions': ['src/flows/send-message.ts', 'MOST_MENTIONS'],
  'Message.outcomes': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Message.parts': 'counted',
  'Message.reactions': ['src/rules/message-changes.ts', 'MOST_EMOJIS'],
  'Message.staleRuns': ['src/spaces/change-reading.ts', 'MOST_STALE_RUNS'],
  'Message.versions': ['src/rules/message-changes.ts', 'MOST_VERSIONS'],
  'Reaction.entities': ['src/spaces/change-reading.ts', 'MOST_ENTITIES'],
  'Plan.askers': 'counted',
  'Plan.confidentialTo': 'counted',
  'Plan.nextRuns': ['src/plans/schedule.ts', 'MOST_NEXT_TIMES'],
  'ModelProvider.models': ['src/models/model-list.ts', 'MOST_MODELS'],
  'RemoteAgent.headerNames': ['src/agents/outgoing-request.ts', 'MOST_HEADERS'],
  'RemoteAgentCard.skills': ['src/tools/a2a/card.ts', 'MOST_SKILLS'],
  'Query.modelProviders': 'counted',
  'Query.nextRuns': ['src/plans/schedule.ts', 'MOST_NEXT_TIMES'],
  'Query.nodes': LARGEST_PAGE,
  'Query.standingGrants': ['src/runs/grant-reading.ts', 'MOST_LISTED'],
  'Query.usage': ['src/runs/usage.ts', 'MOST_ROWS'],
  'Query.wakes': ['src/graphql/send-message.ts', 'MOST_WOKEN'],
  'ReadOpenApiPayload.tools': ['src/tools/openapi/operations.ts', 'MOST_OPERATIONS'],
  'Run.pendingToolCalls': 'counted',
  'Run.toolCalls': 'counted',
  'RunInternals.askers': 'counted',
  'RunInternals.confidentialTo': 'counted',
  'RunWaitingTool.toolCalls': 'counted',
  'SendMessagePayload.runs': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Space.agentsElsewhere': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Space.members': ['src/flows/join-space.ts', 'MOST_MEMBERS'],
  'Space.standingGrants': ['src/runs/grant-reading.ts', 'MOST_LISTED'],
  'Space.unreadThreads': ['src/spaces/reading.ts', 'MOST_UNREAD_THREADS'],
  'StandingGrant.decisions': 'counted',
  'StepRecord.activeTools': 'counted',
  'StepRecord.confidentialTo': 'counted',
  'StepRecord.failedModels': ['src/agents/agent-settings.ts', 'MOST_FALLBACKS'],
  'StepRecord.withheld': 'counted',
  'StopRunPayload.stoppedRuns': 'counted',
  'Tool.headerNames': ['src/agents/outgoing-request.ts', 'MOST_HEADERS'],
  'ToolCall.files': ['src/lib/tool-file.ts', 'MOST_KEPT_FILES'],
  'ToolPhase.activeTools': ['src/agents/custom-tools.ts', 'MOST_TOOLS'],
  'Viewer.pendingToolCalls': ['src/runs/tool-call-reading.ts', 'MOST_PENDING'],
  'Viewer.rateLimits': 3,
  'Space.joinLinks': ['src/flows/join-links.ts', 'MOST_LINKS_OF_SPACE'],
  'WhyStep.causes': 'counted',
  'WhyTrace.steps': ['src/rules/why.ts', 'MOST_WHY_STEPS'],
  'Human.sessions': ['src/access/sessions.ts', 'MOST_OF_VIEWER'],
  'Viewer.sessions': ['src/access/sessions.ts', 'MOST_OF_VIEWER'],
}

export interface AuditedField {
  /** `Type.field`. */
  name: string
  kind: 'fixed' | 'text' | 'json' | 'page' | 'object'
  /** The maximum number of JSON bytes, without the selections of objects; null if only the counter limits them. */
  mostBytes: number | null
  /** The maximum number of items of the list; null if only the counter limits them; 1 for a single value. */
  mostItems: number | null
  /** The response bytes per request byte of one more alias; null if only the counter limits them. */
  bytesPerRequestByte: number | null
}

export interface Audit {
  schema: GraphQLSchema
  fields: AuditedField[]
  /** Fields that others can make long, but that no rule of this file classifies. */
  unclassified: string[]
  /** Rules of this file for fields that no longer exist. */
  outdated: string[]
}

/** Classifies every field of the printed schema that a response can contain. */
export function auditSchema(): Audit {
  const schema = buildSchema(readFileSync(path.join(ROOT, 'schema.graphql'), 'utf8'))
  const types = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) && !type.name.startsWith('__'))
  const used = new Set<string>()
  const unclassified: string[] = []
  const fields = (types as GraphQLObjectType[]).flatMap((type) =>
    Object.values(type.getFields()).map((field) => classify(type, field, used, unclassified)),
  )
  const rules: Record<string, Record<string, TextLimit>> = { texts: TEXTS, JSON: JSONS, lists: LISTS }
  const outdated = Object.entries(rules).flatMap(([table, known]) =>
    Object.keys(known).flatMap((name) => (used.has(`${table} ${name}`) ? [] : [`${name} of the table of ${table}`])),
  )
  return { schema, fields, unclassified, outdated }
}

function classify(
  { name: type }: GraphQLObjectType,
  field: GraphQLField<unknown, unknown>,
  used: Set<string>,
  unclassified: string[],
): AuditedField {
  const name = `${type}.${field.name}`
  const missing = (what: string) => {
    unclassified.push(`${name}: ${what}`)
    return null
  }
  const look = (table: string, known: Record<string, TextLimit>, what: string): number | null => {
    const rule = [name, `*.${field.name}`].find((rule) => rule in known)
    if (rule === undefined) return missing(`${what} that test/support/response-audit.ts does not classify`)
    used.add(`${table} ${rule}`)
    const limit = known[rule]
    return limit === undefined || limit === 'counted' ? null : typeof limit === 'number' ? limit : constant(...limit)
  }
  const named = getNamedType(field.type)
  const isPage = /Connection$/.test(named.name)
  const isInPage = /Connection$/.test(type)
  const mostItems = !isList(field.type) ? 1 : isInPage ? LARGEST_PAGE : look('lists', LISTS, 'a list without pages')
  const [kind, bytesOfOne] = sizeOf()

  /** Returns the kind of one value, and its maximum bytes. */
  function sizeOf(): [AuditedField['kind'], number | null] {
    if (isEnumType(named)) return ['fixed', Math.max(...named.getValues().map((value) => value.name.length)) + 2]
    if (!isScalarType(named)) return [isPage ? 'page' : 'object', 2]
    if (named.name === 'String') {
      const units = look('texts', TEXTS, 'a text')
      return ['text', units === null ? null : units * BYTES_A_UNIT + 2]
    }
    if (named.name === 'JSON') return ['json', look('JSON', JSONS, 'JSON')]
    return ['fixed', BYTES_OF[named.name] ?? missing(`a scalar ${named.name}`)]
  }

  const mostBytes = bytesOfOne === null || mostItems === null ? null : bytesOfOne * mostItems
  // ` a1:name` selects the field once more. In the response, `"a1":` precedes the value.
  const bytesPerRequestByte = mostBytes === null ? null : (mostBytes + 6) / (field.name.length + 4)
  return { name, kind, mostBytes, mostItems, bytesPerRequestByte }
}

const isList = (type: GraphQLOutputType): boolean =>
  isNonNullType(type) ? isList(type.ofType as GraphQLOutputType) : isListType(type)

/** Returns a number of the code, by the name of its constant. @throws if the file has no such constant */
function constant(file: string, name: string): number {
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  const expression = new RegExp(`\\bconst ${name} = ([\\d_ *]+)$`, 'm').exec(text)?.[1]
  if (expression === undefined) throw new Error(`${file} has no constant ${name} that is a number`)
  return expression
    .replaceAll('_', '')
    .split('*')
    .reduce((product, factor) => product * Number(factor), 1)
}

/** Returns the audit as a table, sorted by response bytes per request byte. */
export function auditTable(fields: readonly AuditedField[], mostResponseBytes: number): string {
  const long = fields.filter(({ kind, mostItems }) => kind === 'text' || kind === 'json' || mostItems !== 1)
  const worst = ({ bytesPerRequestByte }: AuditedField) => bytesPerRequestByte ?? Number.POSITIVE_INFINITY
  const rows = long
    .toSorted((a, b) => worst(b) - worst(a) || a.name.localeCompare(b.name))
    .map(({ name, kind, mostBytes, mostItems, bytesPerRequestByte }) => {
      const items = mostItems === null ? 'any number' : mostItems === 1 ? '' : String(mostItems)
      const bytes = mostBytes === null ? `≤ ${mostResponseBytes} (counted)` : String(mostBytes)
      const ratio = bytesPerRequestByte === null ? 'counted' : bytesPerRequestByte.toFixed(0)
      return `| \`${name}\` | ${kind} | ${items} | ${bytes} | ${ratio} |`
    })
  return [
    '| field | kind | items | bytes at most | bytes per request byte |',
    '|---|---|---:|---:|---:|',
    ...rows,
  ].join('\n')
}

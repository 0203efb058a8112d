import type { Domain } from './domain.ts'

type Row<Many extends (ids: never) => Promise<readonly unknown[]>> = NonNullable<Awaited<ReturnType<Many>>[number]>
type Item<List extends (ids: never) => Promise<Map<string, readonly unknown[]>>> =
  Awaited<ReturnType<List>> extends Map<string, readonly (infer One)[]> ? One : never

/** The values that back the API's types, as the domain layer returns them. */
export type { AgentVersion } from '../agents/agent-versions.ts'
export type Invitation = NonNullable<Awaited<ReturnType<Domain['invitations']['getMany']>>[number]>
export type JoinLink = Awaited<ReturnType<Domain['joinLinks']['create']>>
export type JoinableSpace = NonNullable<Awaited<ReturnType<Domain['joinLinks']['describe']>>>
export type File = Row<Domain['files']['getMany']>
export type Session = Awaited<ReturnType<Domain['sessions']['list']>>[number]
export type AccessToken = Awaited<ReturnType<Domain['tokens']['create']>>['accessToken']
export type Agent = Row<Domain['agents']['getMany']>
export type ApprovalStanding =
  Awaited<ReturnType<Domain['approvalReading']['standingOf']>> extends Map<string, infer One> ? One : never
export type AuditEntry = Row<Domain['auditLog']['getMany']>
export type Chain = Row<Domain['chains']['getMany']>
export type Consciousness = Row<Domain['consciousness']['getMany']>
export type Entity = Row<Domain['entities']['getMany']>
export type FailedJob = Awaited<ReturnType<Domain['failedJobs']['page']>>['items'][number]
export type Goal = Row<Domain['goals']['getMany']>
export type Cycle = Row<Domain['consciousness']['cycles']>
export type InboxEvent = Row<Domain['inboxReading']['getMany']>
export type MailStatus = Awaited<ReturnType<Domain['mailStatus']>>
export type McpServer = Item<Domain['mcpServers']['listMany']>
export type McpTool = Omit<McpServer['tools'][number], 'fingerprint'>
export type ConnectedMcpServer = Awaited<ReturnType<Domain['toolSetup']['connectMcpServer']>>
export type OpenApiTool = Awaited<ReturnType<Domain['toolSetup']['readOpenApi']>>[number]
export type TriedTool = Awaited<ReturnType<Domain['toolSetup']['tryTool']>>
export type Memory = Item<Domain['memories']['listMany']>
export type Message = Row<Domain['reading']['getMany']>
export type MessageVersion = Item<Domain['changeReading']['versionsMany']>
export type Reaction = Item<Domain['changeReading']['reactionsMany']>
export type MessagePart = Message['parts'][number]
export type ModelProvider = Awaited<ReturnType<Domain['modelProviders']['list']>>[number]
export type Outcome = Item<Domain['reading']['outcomesMany']>
export type Plan = Row<Domain['plans']['getMany']>
export type PlanFiring = Row<Domain['firingReading']['getMany']>
export type Run = Row<Domain['runs']['getMany']> & {
  /**
   * Set if the viewer sees the run only because an approval policy lists the viewer as an approver of some of its
   * calls. The viewer then sees only these calls.
   */
  onlyAsked?: true
}
export type SearchHit = Awaited<ReturnType<Domain['search']['find']>>['items'][number]
export type MessagesRequest = Parameters<Domain['reading']['pageMany']>[1]
export type Space = Row<Domain['spaces']['getMany']>
export type StandingGrant = Row<Domain['grantReading']['getMany']>
export type GrantStanding =
  Awaited<ReturnType<Domain['grantReading']['standingOf']>> extends Map<string, infer One> ? One : never
export type Thread = Awaited<ReturnType<Domain['reading']['threadsMany']>> extends Map<string, infer One> ? One : never
export type StepRecord = Awaited<ReturnType<Domain['stepRecords']['pageMany']>>[number]['items'][number]
export type Tool = Item<Domain['customTools']['listMany']>
/** The fields of a run that are part of signals, so that no lookup is needed. */
export type ToldRun = Item<Domain['runs']['toldOf']>
export type ToolCall = Row<Domain['toolCalls']['getBriefMany']>
export type RootUsage = Awaited<ReturnType<Domain['usage']['ofRoots']>> extends Map<string, infer One> ? One : never
export type SpentToday = Awaited<ReturnType<Domain['usage']['today']>> extends Map<string, infer One> ? One : never
export type UsageRow = Awaited<ReturnType<Domain['usage']['query']>>[number]
export type Webhook = Row<Domain['webhooks']['getMany']>

/** The fields that humans and agents have in common. Other fields are loaded only if they are selected. */
export type Participant = Pick<Entity, 'id' | 'kind' | 'name' | 'createdAt'>

/** The token usage of a run or of one of its steps. */
export interface Usage {
  estimated: boolean
  inputTokens: number
  /** Absent in events from versions that did not count cached tokens. */
  cachedInputTokens?: number
  outputTokens: number
  /** Null if unknown. Absent in events from versions that did not compute costs. */
  costUsd?: number | null
}

/** A part of a message, with its index. */
export interface PlacedPart {
  messageId: string
  index: number
  part: MessagePart
}

import type { App } from './app.ts'

type Row<Many extends (ids: never) => Promise<readonly unknown[]>> = NonNullable<Awaited<ReturnType<Many>>[number]>
type Item<List extends (ids: never) => Promise<Map<string, readonly unknown[]>>> =
  Awaited<ReturnType<List>> extends Map<string, readonly (infer One)[]> ? One : never

/** What stands behind the API's types: what the domain answers with. */
export type AccessToken = Awaited<ReturnType<App['tokens']['create']>>['accessToken']
export type Agent = Row<App['agents']['getMany']>
export type ApprovalStanding =
  Awaited<ReturnType<App['approvalReading']['standingOf']>> extends Map<string, infer One> ? One : never
export type AuditEntry = Row<App['auditLog']['getMany']>
export type Chain = Row<App['chains']['getMany']>
export type Consciousness = Row<App['consciousness']['getMany']>
export type Entity = Row<App['entities']['getMany']>
export type Goal = Row<App['goals']['getMany']>
export type Cycle = Row<App['consciousness']['cycles']>
export type InboxEvent = Row<App['inboxReading']['getMany']>
export type McpServer = Item<App['mcpServers']['listMany']>
export type Memory = Item<App['memories']['listMany']>
export type Message = Row<App['reading']['getMany']>
export type MessagePart = Message['parts'][number]
export type ModelProvider = Awaited<ReturnType<App['modelProviders']['list']>>[number]
export type Outcome = Item<App['reading']['outcomesMany']>
export type Plan = Row<App['plans']['getMany']>
export type PlanFiring = Row<App['firingReading']['getMany']>
export type Run = Row<App['runs']['getMany']> & {
  /** The viewer sees it only because they are asked by name to decide on a call of it: of its calls, those alone. */
  onlyAsked?: true
}
export type Space = Row<App['spaces']['getMany']>
export type StepRecord = Awaited<ReturnType<App['stepRecords']['pageMany']>>[number]['items'][number]
export type Tool = Item<App['customTools']['listMany']>
/** What of a run is known without looking. */
export type ToldRun = Item<App['runs']['toldOf']>
export type ToolCall = Row<App['toolCalls']['getMany']>
export type RootUsage = Awaited<ReturnType<App['usage']['ofRoots']>> extends Map<string, infer One> ? One : never
export type SpentToday = Awaited<ReturnType<App['usage']['today']>> extends Map<string, infer One> ? One : never
export type UsageRow = Awaited<ReturnType<App['usage']['query']>>[number]
export type Webhook = Row<App['webhooks']['getMany']>

/** An entity of which only what all have in common is known; the rest is loaded where it is asked for. */
export type Participant = Pick<Entity, 'id' | 'kind' | 'name' | 'createdAt'>

/** Tokens of a run or of one of its steps. */
export interface Usage {
  estimated: boolean
  inputTokens: number
  /** Not in events of before they were counted. */
  cachedInputTokens?: number
  outputTokens: number
  /** Null, and absent in events of before it was counted: not known. */
  costUsd?: number | null
}

/** A part of a message at its place. */
export interface PlacedPart {
  messageId: string
  index: number
  part: MessagePart
}

import type { Viewer as ViewerShape } from '../access/viewer.ts'
import { builder } from './builder.ts'
import type * as shapes from './shapes.ts'

/**
 * References to the API's types, so that each type can refer to any other. The file named after a type implements
 * it.
 */
export const Node = builder.interfaceRef<{ id: string }>('Node')
export const Entity = builder.interfaceRef<shapes.Participant>('Entity')
export const MessagePart = builder.interfaceRef<shapes.PlacedPart>('MessagePart')
export const TextPart = builder.objectRef<shapes.PlacedPart>('TextPart')

export const Human = builder.objectRef<shapes.Participant>('Human')
export const Agent = builder.objectRef<shapes.Participant>('Agent')
export const AgentInternals = builder.objectRef<{ agentId: string }>('AgentInternals')
export const Tool = builder.objectRef<shapes.Tool>('Tool')
export const McpServer = builder.objectRef<shapes.McpServer>('McpServer')
export const McpTool = builder.objectRef<shapes.McpTool>('McpTool')
export const Memory = builder.objectRef<shapes.Memory>('Memory')
export const Goal = builder.objectRef<shapes.Goal>('Goal')
export const Consciousness = builder.objectRef<shapes.Consciousness>('Consciousness')
export const Cycle = builder.objectRef<shapes.Cycle>('Cycle')
export const InboxEvent = builder.objectRef<shapes.InboxEvent>('InboxEvent')
export const Space = builder.objectRef<shapes.Space>('Space')
export const Message = builder.objectRef<shapes.Message>('Message')
export const AgentOutcome = builder.objectRef<shapes.Outcome>('AgentOutcome')
export const ToolCall = builder.objectRef<shapes.ToolCall>('ToolCall')
export const StandingGrant = builder.objectRef<shapes.StandingGrant>('StandingGrant')
export const Run = builder.objectRef<shapes.Run>('Run')
export const RunInternals = builder.objectRef<{ runId: string }>('RunInternals')
export const StepRecord = builder.objectRef<shapes.StepRecord>('StepRecord')
export const TokenUsage = builder.objectRef<shapes.Usage>('TokenUsage')
export const AuditEntry = builder.objectRef<shapes.AuditEntry>('AuditEntry')
export const Chain = builder.objectRef<shapes.Chain>('Chain')
export const Plan = builder.objectRef<shapes.Plan>('Plan')
export const PlanFiring = builder.objectRef<shapes.PlanFiring>('PlanFiring')
export const Viewer = builder.objectRef<ViewerShape>('Viewer')
export const AccessToken = builder.objectRef<shapes.AccessToken>('AccessToken')
export const File = builder.objectRef<shapes.File>('File')
export const AgentVersion = builder.objectRef<shapes.AgentVersion>('AgentVersion')
export const Invitation = builder.objectRef<shapes.Invitation>('Invitation')
export const JoinLink = builder.objectRef<shapes.JoinLink>('JoinLink')
export const Session = builder.objectRef<shapes.Session>('Session')
export const Webhook = builder.objectRef<shapes.Webhook>('Webhook')

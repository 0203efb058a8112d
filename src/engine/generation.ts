import {
  type AssistantModelMessage,
  type ContentPart,
  type ModelMessage,
  NoSuchToolError,
  type ToolSet,
  type TypedToolCall,
} from 'ai'
import { newId } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import type { StreamPart } from '../models/language-model.ts'
import { toolResult } from '../runs/conversation.ts'
import type { NewToolCall, Usage } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import { takePlacement } from '../tools/placement.ts'
import { failureResult, type Tool } from '../tools/tool.ts'
import type { SpaceWriter } from './space-writer.ts'
import { estimatedUsage } from './token-usage.ts'

/** One generation while it streams: what of it is shown live, and the ids of its calls. */
export interface LiveGeneration {
  /** A part at the model's edge. */
  see(part: StreamPart): void
  /** Our id of a call of the model's. */
  callIdOf(modelCallId: string): string
  /** The provider has said what it cost. */
  end(): void
  /** Our id of the call whose message has begun with its input, if there is one. */
  begunCall(): string | null
  /** What it cost so far, if it has begun and never ended. */
  estimate(sent: unknown[]): Usage | null
}

interface LiveParts {
  step: number
  /** Those that the model may call at this step: what it writes for another one shows nowhere. */
  tools: Map<string, Tool>
  writer: SpaceWriter
  events: RunEvents
}

/** A message's deltas appear when its turn comes: live for the first call of a step, when it executes for later ones. */
export function createLiveGeneration({ step, tools, writer, events }: LiveParts): LiveGeneration {
  const calls = new Map<string, { id: string; toolName: string; live: boolean }>()
  let begun: string | null = null
  let received = ''
  let ended = false

  function open(modelCallId: string, toolName: string) {
    const tool = tools.get(toolName)
    const isFirst = calls.size === 0
    const call = { id: newId('tcl'), toolName, live: isFirst && tool?.presence.type === 'speech' }
    calls.set(modelCallId, call)
    if (isFirst && tool !== undefined && tool.presence.type !== 'hidden') {
      begun = call.id
      if (tool.presence.type === 'part') writer.openPart(call.id, tool)
      else writer.open(call.id, tool.presence.field)
    }
    return call
  }

  return {
    see(part) {
      if (part.type === 'text-delta') events.text(step, part.delta)
      else if (part.type === 'reasoning-delta') events.reasoning(step, part.delta)
      else if (part.type === 'tool-input-start') open(part.id, part.toolName)
      else if (part.type === 'tool-input-delta') {
        const call = calls.get(part.id)
        if (call === undefined) return
        events.toolInput(step, call.id, call.toolName, part.delta)
        if (call.live) writer.write(call.id, part.delta)
      } else return
      if ('delta' in part) received += part.delta
    },
    callIdOf: (modelCallId) => (calls.get(modelCallId) ?? open(modelCallId, '')).id,
    begunCall: () => begun,
    end() {
      ended = true
    },
    estimate: (sent) => (ended || received === '' ? null : estimatedUsage(sent, received)),
  }
}

type Content = readonly ContentPart<ToolSet>[]

/** A generation's content as the assistant's message. Sources are for readers, not for providers. */
export function assistantMessage(content: Content): ModelMessage {
  return { role: 'assistant', content: content.flatMap((part) => assistantPart(part) ?? []) }
}

type AssistantPart = Exclude<AssistantModelMessage['content'], string>[number]

function assistantPart(part: ContentPart<ToolSet>): AssistantPart | null {
  if (part.type !== 'text' && part.type !== 'reasoning' && part.type !== 'tool-call') return null
  const providerOptions = part.providerMetadata ? { providerOptions: part.providerMetadata } : {}
  if (part.type === 'reasoning') return { type: 'reasoning', text: part.text, ...providerOptions }
  if (part.type === 'text') return part.text === '' ? null : { type: 'text', text: part.text, ...providerOptions }
  const { toolCallId, toolName } = part
  return { type: 'tool-call', toolCallId, toolName, input: inputOf(part.input), ...providerOptions }
}

/** A model may write anything for an input: providers want an object back. */
function inputOf(input: unknown): Json {
  return typeof input === 'object' && input !== null ? toJson(input) : {}
}

/** A generation's calls, for the journal: those that name no tool, or whose input is no JSON, have failed already. */
export function callsOf(content: Content, tools: Map<string, Tool>, live: LiveGeneration): NewToolCall[] {
  return content.flatMap((part) => (part.type === 'tool-call' ? [newCall(part, tools.get(part.toolName), live)] : []))
}

function newCall(part: TypedToolCall<ToolSet>, tool: Tool | undefined, live: LiveGeneration): NewToolCall {
  const { toolCallId, toolName } = part
  const id = live.callIdOf(toolCallId)
  const { input, state } = takePlacement(tool, inputOf(part.input))
  const call = { id, modelCallId: toolCallId, toolName, execution: tool?.execution ?? null, input, state }
  if (part.invalid !== true) return { ...call, status: 'RUNNING', output: null, error: null }
  const isMissing = tool === undefined || NoSuchToolError.isInstance(part.error)
  const fault = isMissing ? `There is no tool ${toolName} for you at this step.` : 'The input is not a JSON object.'
  return { ...call, status: 'FAILED', output: failureResult('BAD_INPUT', fault), error: fault }
}

/** The SDK answers a call that it cannot pass on in words of its own: the model gets what the journal holds, by the model's id. */
export function answeredAsJournaled(messages: ModelMessage[], failed: Map<string, Json>): ModelMessage[] {
  return messages.map((message) => {
    if (message.role !== 'tool') return message
    const content = message.content.map((part) => {
      const output = part.type === 'tool-result' ? failed.get(part.toolCallId) : undefined
      const isSdks = part.type === 'tool-result' && part.output.type === 'error-text' && output !== undefined
      return isSdks ? toolResult(part.toolCallId, part.toolName, output) : part
    })
    return { ...message, content }
  })
}

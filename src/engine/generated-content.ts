import {
  type AssistantModelMessage,
  type ContentPart,
  type ModelMessage,
  NoSuchToolError,
  type ToolSet,
  type TypedToolCall,
} from 'ai'
import { UNKNOWN_TOOL } from '../agents/tool-names.ts'
import type { Requester } from '../lib/fair-queue.ts'
import { DEEPEST_JSON, type Json, storableText, toJson } from '../lib/json.ts'
import { withoutNulls } from '../lib/schema-checks.ts'
import { madeBy } from '../runs/model-messages.ts'
import type { NewToolCall } from '../stores/call-store.ts'
import { takePlacement } from '../tools/placement.ts'
import { failureResult, type Tool } from '../tools/tool.ts'
import type { LiveGeneration } from './live-generation.ts'
import { NESTED_TOO_DEEP } from './tapped-model.ts'

type Content = readonly ContentPart<ToolSet>[]

/**
 * Converts the model's output to an assistant message. Omits sources, because providers do not accept them in the
 * history.
 */
export function assistantMessage(model: string, content: Content): ModelMessage {
  const parts = content.flatMap((part) => assistantPart(part) ?? [])
  return madeBy(model, parts)
}

type AssistantPart = Exclude<AssistantModelMessage['content'], string>[number]

function assistantPart(part: ContentPart<ToolSet>): AssistantPart | null {
  if (part.type !== 'text' && part.type !== 'reasoning' && part.type !== 'tool-call') return null
  const providerOptions = part.providerMetadata ? { providerOptions: part.providerMetadata } : {}
  if (part.type === 'reasoning') return { type: 'reasoning', text: part.text, ...providerOptions }
  // Google attaches the signature of its reasoning to an empty text, which must be kept.
  const isNothing = part.type === 'text' && part.text === '' && part.providerMetadata === undefined
  if (part.type === 'text') return isNothing ? null : { type: 'text', text: part.text, ...providerOptions }
  const { toolCallId, toolName } = part
  return { type: 'tool-call', toolCallId, toolName, input: inputOf(part.input), ...providerOptions }
}

/**
 * Returns the input as an object. A model can generate any JSON, but providers only accept an object in the history.
 */
function inputOf(input: unknown): Json {
  return typeof input === 'object' && input !== null ? toJson(input) : {}
}

/** Returns the input with which a call is executed. */
async function givenInput(written: unknown, tool: Tool | undefined, requester: Requester): Promise<Json> {
  const input = inputOf(written)
  return tool === undefined ? input : withoutNulls(tool, input, requester)
}

/**
 * Returns the calls of a generation for the journal. Calls to unknown tools, and calls whose input is not JSON, are
 * already FAILED.
 */
export function callsOf(content: Content, parts: CallParts): Promise<NewToolCall[]> {
  const made = content.filter((part) => part.type === 'tool-call')
  return Promise.all(made.map((part) => newCall(part, parts)))
}

interface CallParts {
  tools: Map<string, Tool>
  live: LiveGeneration
  requester: Requester
}

async function newCall(part: TypedToolCall<ToolSet>, { tools, live, requester }: CallParts): Promise<NewToolCall> {
  const { toolCallId, toolName } = part
  const tool = tools.get(toolName)
  const id = live.callIdOf(toolCallId)
  const { input, state } = takePlacement(tool, await givenInput(part.input, tool, requester))
  const named = { toolName: tool?.name ?? UNKNOWN_TOOL, execution: tool?.execution ?? null }
  const call = { id, modelCallId: toolCallId, ...named, input, state }
  const fault = faultOf(part, tool)
  if (fault === null) return { ...call, status: 'RUNNING', output: null, error: null }
  return { ...call, status: 'FAILED', output: failureResult('BAD_INPUT', fault), error: fault }
}

/** Returns why a call cannot be executed, as a message for the model; null if it can be executed. */
function faultOf({ toolName, input, invalid, error }: TypedToolCall<ToolSet>, tool: Tool | undefined): string | null {
  if (invalid !== true) return null
  if (input === NESTED_TOO_DEEP) return `The input is nested more than ${DEEPEST_JSON} levels deep.`
  const isMissing = tool === undefined || NoSuchToolError.isInstance(error)
  const name = storableText(toolName)
  return isMissing ? `There is no tool ${name} for you at this step.` : 'The input is not a JSON object.'
}

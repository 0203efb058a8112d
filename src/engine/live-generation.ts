import type { LanguageModel } from 'ai'
import { UNKNOWN_TOOL } from '../agents/tool-names.ts'
import { newId } from '../lib/ids.ts'
import type { StreamPart } from '../models/language-model.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import { createTextFieldScanner, type TextFieldScanner } from '../speech/text-field.ts'
import type { Tool } from '../tools/tool.ts'
import { tapModel } from './tapped-model.ts'

/** One attempt at a generation while it streams: what is shown live, and the ids of its calls. */
export interface LiveGeneration {
  /** Returns the model with a tap on its stream, which sees each part before the SDK does. */
  watch(model: LanguageModel): LanguageModel
  /** Our id for a call of the model. */
  callIdOf(modelCallId: string): string
  /** Our id of the call that is shown live while its input streams, if there is one. */
  begunCall(): string | null
  /** Whether anything was shown in a space: a part, or the first character of a message. */
  hasShown(): boolean
  /** Whether the provider has sent anything, including the start of its response. */
  hasBegun(): boolean
  /** All text, reasoning and tool input received so far. */
  received(): string
}

interface LiveParts {
  step: number
  /** The tools that the model may call at this step; calls of other tools are never shown. */
  tools: Map<string, Tool>
  /** The names of all tools of the agent: viewers see no other tool name. */
  toolNames: ReadonlySet<string>
  writer: SpaceWriter
  events: RunEvents
  /** Called for each part that the model sends. */
  onPart(): void
}

/** Shows the first call of a step live while its input streams; later calls are shown when they are executed. */
export function createLiveGeneration({ step, tools, toolNames, writer, events, onPart }: LiveParts): LiveGeneration {
  const calls = new Map<string, { id: string; toolName: string; live: boolean }>()
  let begun: string | null = null
  let received = ''
  let hasBegun = false
  let hasShown = false
  let text: TextFieldScanner | null = null

  function open(modelCallId: string, toolName: string) {
    const tool = tools.get(toolName)
    const isFirst = calls.size === 0
    const shows = isFirst && tool !== undefined && tool.presence.type !== 'hidden'
    const call = { id: newId('tcl'), toolName: toolNames.has(toolName) ? toolName : UNKNOWN_TOOL, live: shows }
    calls.set(modelCallId, call)
    if (shows) {
      begun = call.id
      if (tool.presence.type === 'part') {
        hasShown = true
        writer.openPart(call.id, tool)
      } else if (tool.presence.type === 'speech') {
        text = createTextFieldScanner(tool.presence.field)
        writer.open(call.id, tool.presence)
      }
    }
    return call
  }

  function see(part: StreamPart): void {
    hasBegun = true
    onPart()
    if (part.type === 'text-delta') events.text(step, part.delta)
    else if (part.type === 'reasoning-delta') events.reasoning(step, part.delta)
    else if (part.type === 'tool-input-start') open(part.id, part.toolName)
    else if (part.type === 'tool-input-delta') {
      const call = calls.get(part.id)
      if (call === undefined) return
      events.toolInput(step, call.id, call.toolName, part.delta)
      if (!call.live) return
      hasShown ||= text !== null && text.push(part.delta) !== ''
      writer.write(call.id, part.delta)
    } else return
    if ('delta' in part) received += part.delta
  }

  return {
    watch: (model) => tapModel(model, see),
    callIdOf: (modelCallId) => (calls.get(modelCallId) ?? open(modelCallId, '')).id,
    begunCall: () => begun,
    hasShown: () => hasShown,
    hasBegun: () => hasBegun,
    received: () => received,
  }
}

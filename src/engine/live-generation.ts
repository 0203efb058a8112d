import type { LanguageModel } from 'ai'
import { UNKNOWN_TOOL } from '../agents/tool-names.ts'
import { newId } from '../lib/ids.ts'
import type { StreamPart } from '../models/language-model.ts'
import type { SpaceWriter } from '../posting/space-writer.ts'
import { createTextFieldScanner, type TextFieldScanner } from '../posting/text-field.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { Tool } from '../tools/tool.ts'
import { tapModel } from './tapped-model.ts'

/** The call of a generation that was cut off in the middle of a message, which the next attempt continues. */
export interface Draft {
  callId: string
  toolName: string
  /** The call's input so far. */
  input: string
}

/** One attempt at a generation, while it streams. Shows the output live, and assigns ids to its calls. */
export interface LiveGeneration {
  /** Wraps the model so that this object receives each part of its stream before the SDK does. */
  watch(model: LanguageModel): LanguageModel
  /** Returns Parley's id for a tool call that the model made. */
  callIdOf(modelCallId: string): string
  /**
   * Returns Parley's id of the call that is shown live while its input streams. If this attempt has not yet continued
   * the draft of an earlier attempt, returns the id of that draft.
   */
  begunCall(): string | null
  /** Returns the message that this attempt leaves unfinished; null if there is none. */
  draft(): Draft | null
  /** Resolves when the draft of an earlier attempt has ended. Resolves at once if this attempt continues that draft. */
  settled(): Promise<void>
  /** Whether any output was shown in a space: a part, or the first character of a message. */
  hasShown(): boolean
  /** Whether the provider has sent at least the start of its response. */
  hasBegun(): boolean
  /** Returns all text, reasoning and tool input received so far. */
  received(): string
}

interface LiveParts {
  step: number
  /** The tools that the model may call at this step. A call to any other tool is never shown. */
  tools: Map<string, Tool>
  /** The names of all tools of the agent. Other names of tools are not shown to viewers. */
  toolNames: ReadonlySet<string>
  /** The message that an earlier attempt has left unfinished. */
  before: Draft | null
  writer: SpaceWriter
  events: RunEvents
  /** Called for each part that arrives from the model. */
  onPart(): void
}

interface LiveCall {
  id: string
  toolName: string
  live: boolean
  /** The call's input so far. */
  input: string
}

/**
 * Shows the first call of a step live while its input streams. Later calls are shown when they are executed. If the
 * first call uses the same tool as an earlier attempt's draft, it continues the draft under the same id.
 */
export function createLiveGeneration(parts: LiveParts): LiveGeneration {
  const { step, tools, toolNames, before, events, onPart } = parts
  const calls = new Map<string, LiveCall>()
  const writer = createDelayedWriter(parts.writer)
  let begun: LiveCall | null = null
  let unfinished = before
  let received = ''
  let hasBegun = false
  let hasShown = false
  let text: TextFieldScanner | null = null

  /**
   * Returns the id of the draft if the first call continues it. Otherwise ends the draft and returns null.
   * @param toolName the tool of the first call
   */
  function continuedId(toolName: string): string | null {
    const draft = unfinished
    unfinished = null
    if (draft === null || draft.toolName === toolName) return draft?.callId ?? null
    writer.endDraft(draft.callId)
    return null
  }

  function open(modelCallId: string, toolName: string): LiveCall {
    const tool = tools.get(toolName)
    const isFirst = calls.size === 0
    const shows = isFirst && tool !== undefined && tool.presence.type !== 'hidden'
    const id = (isFirst ? continuedId(toolName) : null) ?? newId('tcl')
    const call = { id, toolName: toolNames.has(toolName) ? toolName : UNKNOWN_TOOL, live: shows, input: '' }
    calls.set(modelCallId, call)
    if (shows) {
      begun = call
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

  /** Publishes new input of a call. For a continued draft, skips the beginning that was already published. */
  function publishInput(call: LiveCall, delta: string): void {
    const known = call.id === before?.callId ? before.input : ''
    const from = Math.max(call.input.length, known.length)
    call.input += delta
    if (call.input.length > from && call.input.startsWith(known))
      events.toolInput(step, call.id, call.toolName, call.input.slice(from))
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
      publishInput(call, part.delta)
      if (!call.live) return
      hasShown ||= text !== null && text.push(part.delta) !== ''
      writer.write(call.id, part.delta)
    } else return
    if ('delta' in part) received += part.delta
  }

  return {
    watch: (model) => tapModel(model, see),
    callIdOf: (modelCallId) => (calls.get(modelCallId) ?? open(modelCallId, '')).id,
    begunCall: () => begun?.id ?? unfinished?.callId ?? null,
    draft() {
      if (begun === null) return unfinished
      const { id: callId, toolName, input } = begun
      return text === null
        ? null
        : { callId, toolName, input: longerOf(input, callId === before?.callId ? before.input : '') }
    },
    settled: writer.settled,
    hasShown: () => hasShown,
    hasBegun: () => hasBegun,
    received: () => received,
  }
}

const longerOf = (one: string, other: string) => (one.length > other.length ? one : other)

type CallWriter = Pick<SpaceWriter, 'open' | 'openPart' | 'write' | 'close'>

/**
 * Creates a writer that delays writes until the draft of an earlier attempt has ended, because they must not be added
 * to the draft's message.
 */
function createDelayedWriter(writer: CallWriter) {
  let ending: Promise<void> | null = null
  const waiting: (() => void)[] = []

  function inOrder(action: () => void): void {
    if (ending === null) action()
    else waiting.push(action)
  }

  return {
    endDraft(callId: string): void {
      const closed = writer.close({ toolCallId: callId, status: 'CANCELED', output: null, error: null })
      ending = closed.then(() => {
        ending = null
        for (const action of waiting.splice(0)) action()
      })
      ending.catch(() => {})
    },
    open: (...args: Parameters<CallWriter['open']>) => inOrder(() => writer.open(...args)),
    openPart: (...args: Parameters<CallWriter['openPart']>) => inOrder(() => writer.openPart(...args)),
    write: (...args: Parameters<CallWriter['write']>) => inOrder(() => writer.write(...args)),
    async settled(): Promise<void> {
      await ending
    },
  }
}

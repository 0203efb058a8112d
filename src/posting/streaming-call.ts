import { parsePartialJson } from 'ai'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isTooDeep, type JsonObject, toJson } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { indexOfCall } from '../rules/message.ts'
import type { NewWait } from '../stores/call-store.ts'
import { takePlacement } from '../tools/placement.ts'
import { type Tool, ToolFailure, type ToolUse } from '../tools/tool.ts'
import { isConfidential } from './guard.ts'
import type { MessageGrowth, MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import { callPart, type RunMessages, type ToolResult } from './run-messages.ts'

/** Shows the calls of a run, each as a part of a message. */
export interface StreamingCalls {
  /** Shows a call whose input begins to stream, as soon as its target is known. */
  begin(callId: string, tool: Tool): void
  /** Appends raw JSON to the call's input, which is shown at intervals. */
  write(callId: string, delta: string): void
  /** Shows a call whose input is complete. Returns false if the call is not shown. @throws ToolFailure */
  show(use: ToolUse, how: HowShown): Promise<boolean>
  /** Returns the space in which people would be asked about a call; null if there is none. */
  spaceOfQuestion(state: JsonObject): string | null
  /** Journals the result of a call together with the change to its message. Returns false if the call is not shown. */
  settle(result: ToolResult): Promise<boolean>
  /** Whether no call is shown or being shown. */
  isQuiet(): boolean
  /**
   * Stops showing calls whose input is streaming. Resolves when each of their messages exists or could not be begun.
   */
  cancelDrafts(): Promise<void>
}

/** How a call is shown. */
export interface HowShown {
  /** The call's wait for an answer or a decision; null if it does not wait. */
  wait: NewWait | null
  /**
   * `call`: in the target of the call. `question`: in the space where approval is requested, or where it would be
   * requested without a standing grant.
   */
  at: 'call' | 'question'
}

interface ShownPart {
  open: OpenMessage
  mention: string | null
}

interface StreamingCallsInput {
  posting: RunMessages
  policy: MessagePolicy
  growth: MessageGrowth
}

export function createStreamingCalls(
  platform: Platform,
  { posting, policy, growth }: StreamingCallsInput,
): StreamingCalls {
  const shown = new Map<string, ShownPart>()
  /** Calls that are not shown yet, or that are shown with streaming input. */
  const drafts = new Map<string, PartDraft>()
  for (const [callId, open] of policy.shownBefore()) {
    if (policy.composite) drafts.set(callId, { push() {}, end: async () => open })
    else shown.set(callId, { open, mention: null })
  }

  /**
   * Returns the parts of a message including the call's part. Appends that part unless it is already among the finished
   * parts.
   */
  function partsWith(callId: string, { parts }: OpenMessage, { isUnfinished }: { isUnfinished: boolean }) {
    return indexOfCall(parts, callId) < 0 ? [...parts, callPart(callId, { isUnfinished })] : parts
  }

  /** Returns the message for a call whose input is complete; null if the call is not shown. @throws ToolFailure */
  async function openOf(callId: string, place: Place | null): Promise<OpenMessage | null> {
    const begun = (await drafts.get(callId)?.end()) ?? shown.get(callId)?.open
    if (begun !== undefined && begun.spaceId !== place?.spaceId)
      throw new ToolFailure('BAD_INPUT', 'Write each field of the input once.')
    if (place === null) return null
    await policy.check(place)
    return begun ?? policy.at(callId, place)
  }

  async function settle(result: ToolResult): Promise<boolean> {
    const { toolCallId: callId, status } = result
    const begun = (await drafts.get(callId)?.end()) ?? null
    drafts.delete(callId)
    const { open, mention } = shown.get(callId) ?? { open: begun, mention: null }
    const message = await open?.message?.catch(() => null)
    if (open === null || message == null) return false
    const isBrokenOff = status === 'CANCELED'
    const parts =
      begun === null ? open.parts : partsWith(callId, open, { isUnfinished: isBrokenOff && policy.composite })
    const goesOn = policy.composite && (mention === null || status !== 'DONE')
    const changed = () => posting.callChanged(message, indexOfCall(parts, callId), result)
    if (isBrokenOff) {
      await posting.interrupt(message, parts, result)
      policy.close(open)
      return true
    }
    const grown =
      goesOn && parts === open.parts
        ? posting.checkHeard(open.spaceId).then(changed)
        : growth.grow(open, message, parts, { result, ...(goesOn ? {} : { ends: { mention } }) })
    await grown.catch(async (error) => {
      if (!(error instanceof ToolFailure)) throw error
      // If the mention is refused or the message has ended, the call's result must still be stored.
      if (!isConfidential(error)) return changed()
      await posting.withdraw(message, parts, result)
      policy.close(open)
    })
    return true
  }

  return {
    begin: (id, tool) =>
      void drafts.set(id, createPartDraft(platform, { posting, policy, growth, call: { id, tool } })),
    write: (callId, delta) => drafts.get(callId)?.push(delta),
    spaceOfQuestion: (state) => policy.placeOfQuestion(state)?.spaceId ?? null,
    async show({ callId, state }, { wait, at }) {
      const place = at === 'question' ? policy.placeOfQuestion(state) : policy.placeOfCall(state)
      const open = await openOf(callId, place)
      if (open === null || place === null) return false
      const { mention } = place
      const call = { toolCallId: callId, waitMs: null, ...wait }
      const parts = partsWith(callId, open, { isUnfinished: false })
      shown.set(callId, { open, mention })
      if (open.message === null && !policy.composite) {
        // In a message of one part, the part is considered finished from the start.
        open.parts = parts
        await growth.begin(open, call)
      } else {
        const message = await growth.begin(open)
        const adds = { type: 'call' as const, shown: call }
        const isLast = !policy.composite || mention !== null
        if (wait !== null && isLast) await growth.grow(open, message, parts, { adds, ends: { mention } })
        else if (parts !== open.parts) await growth.grow(open, message, parts, { adds })
        else {
          await posting.checkHeard(open.spaceId)
          await posting.callChanged(message, indexOfCall(parts, callId), null)
        }
      }
      drafts.delete(callId)
      return true
    },
    settle,
    isQuiet: () => shown.size === 0,
    async cancelDrafts() {
      for (const toolCallId of drafts.keys())
        await settle({ toolCallId, status: 'CANCELED', output: null, error: null })
      await Promise.allSettled([...shown.values()].map(({ open }) => open.message))
    },
  }
}

/** The part of a call whose input is streaming. */
export interface PartDraft {
  /** Appends raw JSON to the input. */
  push(delta: string): void
  /**
   * Stops updating viewers. Resolves when no update is in progress, with the message in which the part has begun, or
   * with null if its target was unknown or refused.
   */
  end(): Promise<OpenMessage | null>
}

interface PartDraftInput {
  posting: RunMessages
  policy: MessagePolicy
  growth: MessageGrowth
  call: { id: string; tool: Tool }
}

/**
 * Begins the part when its target is known and allowed. If the target does not depend on the input, begins it at once.
 * Shows the growing input, without the fields that only contain the target.
 */
export function createPartDraft({ logger }: Platform, parts: PartDraftInput): PartDraft {
  const { posting, policy } = parts
  const { id: toolCallId, tool } = parts.call
  let open: OpenMessage | null = null
  /** The function that shows more of the input; set when the part begins. */
  let begun: Promise<(input: JsonObject) => Promise<void>> | null = null

  async function begin(place: Place, input: JsonObject | null) {
    try {
      await policy.check(place)
      open = policy.at(toolCallId, place)
      const index = open.parts.length
      const message = await beginIn(open, parts, input)
      return (grown: JsonObject) => posting.inputGrown(message, index, { toolCallId, input: grown })
    } catch (error) {
      // After any other error, the message may already exist.
      if (error instanceof ToolFailure) open = null
      throw error
    }
  }

  async function tellOf(written: JsonObject): Promise<void> {
    const input = takePlacement(tool, written).input as JsonObject
    if (begun !== null) return (await begun)(input)
    const place = policy.placeOfBegunCall(written)
    if (place === null) return
    begun = begin(place, input)
    await begun
  }

  const placeBefore = policy.placeOfBegunCall({})
  if (placeBefore !== null) begun = begin(placeBefore, null)
  begun?.catch(() => {})
  const draft = createInputDraft((written) =>
    // An error means that the part cannot begin or the run is lost. Viewers then get no update.
    tellOf(written).catch((error) =>
      logger.debug({ toolCallId, error: messageOf(error) }, 'could not publish a partial tool input'),
    ),
  )

  return {
    push: draft.push,
    async end() {
      await Promise.allSettled([draft.end(), begun])
      return open
    },
  }
}

function beginIn(open: OpenMessage, { policy, growth, call }: PartDraftInput, input: JsonObject | null) {
  const { id: toolCallId, tool } = call
  const writing = { toolName: tool.name, execution: tool.execution, input }
  const message = growth.beginPart(open, { toolCallId, waitMs: null, writing })
  // In a message of one part, the part is considered finished from the start.
  if (!policy.composite) open.parts = [callPart(toolCallId, { isUnfinished: false })]
  return message
}

/** The input of a shown call while the model writes it. */
export interface InputDraft {
  /** Appends raw JSON to the input. */
  push(delta: string): void
  /** Stops reporting. Resolves when no report is in progress. */
  end(): Promise<void>
}

/** The minimum time between two updates for viewers. */
const SHORTEST_PAUSE_MS = 100

/**
 * Reports the input so far, as an object with the complete fields and the beginning of the current field. The first
 * report is immediate. Later reports follow at most every 100 ms, one at a time. Reports nothing before the first
 * property, or if the input is not JSON.
 */
export function createInputDraft(tell: (input: JsonObject) => Promise<void>): InputDraft {
  const over = new AbortController()
  let written = ''
  let told = ''
  let telling: Promise<void> | null = null

  async function tellOn(): Promise<void> {
    while (told !== written && !over.signal.aborted) {
      told = written
      const input = await inputIn(told)
      if (input === null || over.signal.aborted) continue
      await tell(input)
      await sleep(SHORTEST_PAUSE_MS, over.signal)
    }
    telling = null
  }

  return {
    push(delta) {
      written += delta
      telling ??= tellOn()
    },
    async end() {
      over.abort()
      await telling
    },
  }
}

async function inputIn(json: string): Promise<JsonObject | null> {
  const { value } = await parsePartialJson(json)
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isTooDeep(value)) return null
  return Object.keys(value).length === 0 ? null : (toJson(value) as JsonObject)
}

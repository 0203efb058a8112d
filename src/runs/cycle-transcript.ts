import type { AssistantModelMessage, ModelMessage } from 'ai'
import type { Run } from '../generated/prisma/client.ts'
import type { ResultFile } from '../lib/tool-file.ts'
import type { Blame } from '../rules/run-end.ts'
import { messagesOfStep } from './conversation.ts'
import type { JournaledCall, JournaledStep } from './journal.ts'

/** The parts of a cycle's prompt that are in the cycle's state instead of the journal. */
export interface CycleInput {
  /** The inbox message, exactly as the model received it. */
  inbox: string
  inboxSize: number
  /** The texts of urgent events, each with the step before which the model received it. */
  injections: { step: number; text: string }[]
  /** Why the model failed; absent if it did not fail. */
  failure?: Blame
}

/** Reads the stored parts of the prompt from the row of a cycle. */
export function cycleInputOf({ state }: Pick<Run, 'state'>): CycleInput {
  return state as unknown as CycleInput
}

const asShown = (step: JournaledStep): ModelMessage[] => messagesOfStep(step, { asynchronous: true })

/**
 * Returns the messages of a cycle's journaled steps, including urgent events at the positions where the model
 * received them. Every call has a result, regardless of how the cycle ended.
 */
export function messagesOfCycle({ injections }: CycleInput, steps: JournaledStep[], ofStep = asShown): ModelMessage[] {
  const last = steps.at(-1)?.step.index ?? -1
  const at = (isHere: (step: number) => boolean) =>
    injections.filter(({ step }) => isHere(step)).map(({ text }): ModelMessage => ({ role: 'user', content: text }))
  const thought = steps.flatMap((step) => [...at((injected) => injected === step.step.index), ...ofStep(step)])
  return [...thought, ...at((injected) => injected > last)]
}

/** Returns what a cycle adds to the consciousness: the inbox message and everything after it. */
export function lastingMessages(state: CycleInput, steps: JournaledStep[]): ModelMessage[] {
  return [{ role: 'user', content: state.inbox }, ...messagesOfCycle(state, steps, lastingStep)]
}

/**
 * Like `lastingMessages`, but for a cycle whose prompt was rejected by the provider after some steps. Omits the last
 * results and events, which caused the rejection. Returns null if the provider accepted none of the steps.
 */
export function acceptedMessages(state: CycleInput, steps: JournaledStep[]): ModelMessage[] | null {
  const accepted = steps.filter(({ step }) => step.finishReason !== 'content-filter')
  const last = accepted.at(-1)
  if (last === undefined) return null
  const injections = state.injections.filter(({ step }) => step <= last.step.index)
  const calls = last.calls.map((call) => (call.settledAt === null ? call : { ...call, output: RESULT_LEFT_OUT }))
  return lastingMessages({ ...state, injections }, [...accepted.slice(0, -1), { ...last, calls }])
}

const RESULT_LEFT_OUT = {
  leftOut: 'This call has ended. Its result is left out, because the provider refused it.',
}

/**
 * Removes reasoning and item ids, which only the provider that generated them can use, and the files of results, which
 * would fill the consciousness. Calls keep Parley's ids, because those are unique across steps.
 */
function lastingStep({ calls, ...rest }: JournaledStep): ModelMessage[] {
  const step = { ...rest, calls: calls.map((call) => ({ ...call, files: referencesIn(call.files) })) }
  const ids = new Map(step.calls.map(({ modelCallId, id }) => [modelCallId, id]))
  return asShown(step).flatMap((message): ModelMessage[] => {
    if (message.role === 'tool') return [{ role: 'tool', content: message.content.map((part) => known(part, ids)) }]
    if (message.role !== 'assistant' || typeof message.content === 'string') return [message]
    const content = message.content.flatMap((part) => lastingPart(part, ids))
    return content.length === 0 ? [] : [{ role: 'assistant', content }]
  })
}

/** Keeps references to stored files, and removes files whose bytes are in the journal. */
function referencesIn(files: JournaledCall['files']): JournaledCall['files'] {
  const all = (files ?? []) as unknown as ResultFile[]
  return all.filter((file) => !('data' in file)) as unknown as JournaledCall['files']
}

type AssistantPart = Exclude<AssistantModelMessage['content'], string>[number]

function lastingPart(part: AssistantPart, ids: Map<string, string>): AssistantPart[] {
  if (part.type === 'text') return [{ type: part.type, text: part.text }]
  if (part.type !== 'tool-call') return []
  const { type, toolCallId, toolName, input } = part
  return [known({ type, toolCallId, toolName, input }, ids)]
}

function known<P extends object>(part: P, ids: Map<string, string>): P {
  return 'toolCallId' in part ? { ...part, toolCallId: ids.get(String(part.toolCallId)) ?? part.toolCallId } : part
}

/** Returns a summary of a cycle that ended without a closing text, for later cycles. */
export function outlineOf(state: CycleInput, steps: JournaledStep[]): string {
  const names = steps.flatMap(({ calls }) => calls.map(({ toolName }) => toolName))
  const counts = Map.groupBy(names, (name) => name)
  const called = [...counts].map(([name, calls]) => (calls.length === 1 ? name : `${name} × ${calls.length}`))
  const read = state.inboxSize === 1 ? 'I read 1 inbox event' : `I read ${state.inboxSize} inbox events`
  return called.length === 0 ? `${read}.` : `${read} and called ${called.join(', ')}.`
}

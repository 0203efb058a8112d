import type { AssistantModelMessage, ModelMessage } from 'ai'
import { messagesOfStep } from '../runs/conversation.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { CycleState } from './cycle-state.ts'

const asShown = (step: JournaledStep): ModelMessage[] => messagesOfStep(step, { asynchronous: true })

/** What a cycle's journaled steps added, with the urgent events at their places: balanced, whatever became of the cycle. */
export function messagesOfCycle({ injections }: CycleState, steps: JournaledStep[], ofStep = asShown): ModelMessage[] {
  const last = steps.at(-1)?.step.index ?? -1
  const at = (isHere: (step: number) => boolean) =>
    injections.filter(({ step }) => isHere(step)).map(({ text }): ModelMessage => ({ role: 'user', content: text }))
  const thought = steps.flatMap((step) => [...at((injected) => injected === step.step.index), ...ofStep(step)])
  return [...thought, ...at((injected) => injected > last)]
}

/** A cycle's share of the consciousness: the inbox message and all that followed. */
export function lastingMessages(state: CycleState, steps: JournaledStep[]): ModelMessage[] {
  return [{ role: 'user', content: state.inbox }, ...messagesOfCycle(state, steps, lastingStep)]
}

/**
 * The same of a cycle that a provider refused when it had thought already: what it did is remembered; what came in last, the results
 * of its last calls and events after them, is left out. Null: nothing of it was accepted.
 */
export function acceptedMessages(state: CycleState, steps: JournaledStep[]): ModelMessage[] | null {
  const accepted = steps.filter(({ step }) => step.finishReason !== 'content-filter')
  const last = accepted.at(-1)
  if (last === undefined) return null
  const injections = state.injections.filter(({ step }) => step <= last.step.index)
  const calls = last.calls.map((call) => (call.settledAt === null ? call : { ...call, output: RESULT_LEFT_OUT }))
  return lastingMessages({ ...state, injections }, [...accepted.slice(0, -1), { ...last, calls }])
}

const RESULT_LEFT_OUT = {
  leftOut: 'This call has ended. What it returned is left out, because the provider refused it.',
}

/**
 * Reasoning, and the ids that a provider gave its items, stay behind: they are for the provider and the moment, and a
 * consciousness outlives both. Calls are known by our own ids, which no two steps share.
 */
function lastingStep(step: JournaledStep): ModelMessage[] {
  const ids = new Map(step.calls.map(({ modelCallId, id }) => [modelCallId, id]))
  return asShown(step).flatMap((message): ModelMessage[] => {
    if (message.role === 'tool') return [{ role: 'tool', content: message.content.map((part) => known(part, ids)) }]
    if (message.role !== 'assistant' || typeof message.content === 'string') return [message]
    const content = message.content.flatMap((part) => lastingPart(part, ids))
    return content.length === 0 ? [] : [{ role: 'assistant', content }]
  })
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

/** What a cycle that ended without words of its own did, for the summaries of later ones. */
export function outlineOf(state: CycleState, steps: JournaledStep[]): string {
  const names = steps.flatMap(({ calls }) => calls.map(({ toolName }) => toolName))
  const counts = Map.groupBy(names, (name) => name)
  const called = [...counts].map(([name, calls]) => (calls.length === 1 ? name : `${name} × ${calls.length}`))
  const read = state.inboxSize === 1 ? 'I read 1 inbox event' : `I read ${state.inboxSize} inbox events`
  return called.length === 0 ? `${read}.` : `${read} and called ${called.join(', ')}.`
}

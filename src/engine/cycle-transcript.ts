import type { AssistantModelMessage, ModelMessage } from 'ai'
import { messagesOfStep } from '../runs/conversation.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { CycleState } from './cycle-state.ts'

/** What a cycle's journaled steps added, with the urgent events at their places: balanced, whatever became of the cycle. */
export function messagesOfCycle({ injections }: CycleState, steps: JournaledStep[]): ModelMessage[] {
  const last = steps.at(-1)?.step.index ?? -1
  const at = (isHere: (step: number) => boolean) =>
    injections.filter(({ step }) => isHere(step)).map(({ text }): ModelMessage => ({ role: 'user', content: text }))
  const thought = steps.flatMap((step) => [
    ...at((injected) => injected === step.step.index),
    ...messagesOfStep(step, { asynchronous: true }),
  ])
  return [...thought, ...at((injected) => injected > last)]
}

/**
 * A cycle's share of the consciousness: the inbox message and all that followed. Reasoning, and the ids that a provider gave
 * its items, stay behind: they are for the provider and the moment, and a consciousness outlives both.
 */
export function lastingMessages(state: CycleState, steps: JournaledStep[]): ModelMessage[] {
  return [{ role: 'user', content: state.inbox }, ...messagesOfCycle(state, steps).flatMap(lasting)]
}

function lasting(message: ModelMessage): ModelMessage[] {
  if (message.role !== 'assistant' || typeof message.content === 'string') return [message]
  const content = message.content.flatMap((part): AssistantPart[] => {
    if (part.type === 'text') return [{ type: part.type, text: part.text }]
    if (part.type !== 'tool-call') return []
    const { type, toolCallId, toolName, input } = part
    return [{ type, toolCallId, toolName, input }]
  })
  return content.length === 0 ? [] : [{ role: 'assistant', content }]
}

type AssistantPart = Exclude<AssistantModelMessage['content'], string>[number]

/** What a cycle that ended without words of its own did, for the summaries of later ones. */
export function outlineOf(state: CycleState, steps: JournaledStep[]): string {
  const names = steps.flatMap(({ calls }) => calls.map(({ toolName }) => toolName))
  const counts = Map.groupBy(names, (name) => name)
  const called = [...counts].map(([name, calls]) => (calls.length === 1 ? name : `${name} × ${calls.length}`))
  const read = state.inboxSize === 1 ? 'I read 1 inbox event' : `I read ${state.inboxSize} inbox events`
  return called.length === 0 ? `${read}.` : `${read} and called ${called.join(', ')}.`
}

import type { Step } from '../generated/prisma/client.ts'
import type { Recorded } from './recording.ts'

/** Returns the text and the calls of a model's answer. */
export function answerOf({ assistant }: Pick<Recorded<Step>, 'assistant'>): {
  text: string
  calls: { toolName: string; input: unknown }[]
} {
  const { content } = assistant as {
    content: string | { type: string; text?: string; toolName?: string; input?: unknown }[]
  }
  if (typeof content === 'string') return { text: content, calls: [] }
  return {
    text: content.flatMap(({ type, text }) => (type === 'text' ? (text ?? '') : [])).join(''),
    calls: content.flatMap(({ type, toolName = '', input }) => (type === 'tool-call' ? { toolName, input } : [])),
  }
}

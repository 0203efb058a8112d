import { jsonBytes } from '../../lib/json.ts'
import { lastInBytes } from '../bytes.ts'
import type { Asked } from './resource.ts'
import type { Item } from './transcript.ts'
import type { TurnView } from './turn-stream.ts'

const idOf = ({ id }: Asked) => id.replace(/^resp_/, 'chatcmpl-')

const SEPARATOR = '\n\n'

const textsOf = ({ items, words }: TurnView) =>
  [...items, ...words].map(({ text }) => text).filter((text) => text !== '')

function usageOf({ usage }: TurnView) {
  if (usage === null) return null
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.totalTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedInputTokens },
  }
}

const headOf = (asked: Asked, object: string) => ({
  id: idOf(asked),
  object,
  created: asked.createdAt,
  model: asked.model,
})

/** The size of the JSON between two texts of a chat completion. */
const BETWEEN_TEXTS = Buffer.byteLength(JSON.stringify(SEPARATOR))

/**
 * Returns a chat completion with the texts of the turn. If not all of them fit into `maxBytes` of JSON, the
 * completion contains only the last ones.
 */
export function chatCompletionOf(asked: Asked, view: TurnView, maxBytes: number) {
  const completionWith = (content: string) => ({
    ...headOf(asked, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ],
    usage: usageOf(view),
  })
  const texts = textsOf(view)
  const left = maxBytes - jsonBytes(completionWith('')) - texts.length * BETWEEN_TEXTS
  return completionWith(lastInBytes(texts, left).join(SEPARATOR))
}

/** Converts successive views of a turn to the chunks of a chat completion. */
export function chatChunks(asked: Asked, includesUsage: boolean) {
  /** The number of characters of each item that have been sent, by the item's id. */
  const sent = new Map<string, number>()
  let last: string | null = null
  let isBegun = false
  /** Returns the text of an item that has not been sent yet. */
  const rest = ({ id, text }: Item): string => {
    const length = sent.get(id)
    if (text === '' || (length !== undefined && (id !== last || text.length <= length))) return ''
    const separator = length === undefined && sent.size > 0 ? SEPARATOR : ''
    last = id
    sent.set(id, text.length)
    return separator + text.slice(length ?? 0)
  }
  const chunk = (delta: object, finish: 'stop' | null = null) => ({
    ...headOf(asked, 'chat.completion.chunk'),
    choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
  })
  return {
    /** Returns chunks with the text in this view that earlier views did not have. */
    next(view: TurnView): object[] {
      const chunks: object[] = []
      if (!isBegun) chunks.push(chunk({ role: 'assistant', content: '' }))
      isBegun = true
      const open = view.items.findIndex(({ isComplete }) => !isComplete)
      const shown =
        view.status !== 'in_progress' || open === -1 ? view : { ...view, items: view.items.slice(0, open + 1) }
      const items = [...shown.items, ...shown.words]
      const begun = items.filter(({ id }) => sent.has(id))
      const texts = [...begun, ...items.filter(({ id }) => !begun.some((one) => one.id === id))].map(rest)
      // Each text gets a separate chunk, because all texts of a turn together may be too long for one event.
      for (const content of texts) if (content !== '') chunks.push(chunk({ content }))
      if (view.status === 'in_progress') return chunks
      if (view.error !== null) {
        const { message } = view.error
        return [...chunks, { error: { message, type: 'server_error', param: null, code: 'run_failed' } }]
      }
      chunks.push(chunk({}, 'stop'))
      if (includesUsage) chunks.push({ ...headOf(asked, 'chat.completion.chunk'), choices: [], usage: usageOf(view) })
      return chunks
    },
  }
}

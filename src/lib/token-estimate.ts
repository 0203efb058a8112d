import { estimateTokenCount } from 'tokenx'

/** The approximate number of tokens of an image or of a page of a document. */
const TOKENS_A_FILE = 1500

/** Estimates the number of tokens of a value's text. Used for budgets, and for providers that do not report usage. */
export function estimateTokens(value: unknown): number {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  if (typeof value === 'string' || !text.includes('"type":"file"')) return estimateTokenCount(text)
  let files = 0
  const withoutFiles = JSON.stringify(value, (_, part) => {
    if (part?.type !== 'file') return part
    files += 1
    return null
  })
  return estimateTokenCount(withoutFiles) + files * TOKENS_A_FILE
}

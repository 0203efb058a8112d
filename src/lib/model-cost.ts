/** The price of a model, in USD per million tokens. */
export interface ModelPrice {
  input: number
  /** The price of input tokens that the provider's cache supplied. */
  cachedInput: number
  output: number
}

/** Billed tokens. */
export interface PaidTokens {
  inputTokens: number
  /** The number of cached tokens, which are part of `inputTokens`. */
  cachedInputTokens: number
  outputTokens: number
}

/**
 * Costs are integers in nano-dollars, so sums of doubles are exact up to nine million dollars, in any order of
 * addition.
 */
const NANOS_A_DOLLAR = 1e9
const NANOS_OF_A_TOKEN_AT_A_DOLLAR_A_MILLION = 1000

/** Returns the cost of tokens in nano-dollars. */
export function costOf(price: ModelPrice, { inputTokens, cachedInputTokens, outputTokens }: PaidTokens): number {
  const { input, cachedInput, output } = price
  const fresh = inputTokens - cachedInputTokens
  const usdPerMillion = fresh * input + cachedInputTokens * cachedInput + outputTokens * output
  return Math.round(usdPerMillion * NANOS_OF_A_TOKEN_AT_A_DOLLAR_A_MILLION)
}

/** Converts a cost to USD. An unknown cost (null) stays null. */
export function usdOf(nanos: number | null): number | null {
  return nanos === null ? null : nanos / NANOS_A_DOLLAR
}

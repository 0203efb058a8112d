/** The price of a model, in USD per million tokens. */
export interface ModelPrice {
  input: number
  /** The price of input that came from the provider's cache. */
  cachedInput: number
  output: number
}

/** Billed tokens. */
export interface PaidTokens {
  inputTokens: number
  /** Included in `inputTokens`. */
  cachedInputTokens: number
  outputTokens: number
}

/** Costs are integers in nano-dollars: sums of doubles are then exact up to nine million dollars, in any order. */
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

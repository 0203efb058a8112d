/** What a model's tokens cost, in USD for a million of them. */
export interface ModelPrice {
  input: number
  /** Of input that the provider had in its cache. */
  cachedInput: number
  output: number
}

/** Tokens that are paid for. */
export interface PaidTokens {
  inputTokens: number
  /** Of `inputTokens`. */
  cachedInputTokens: number
  outputTokens: number
}

/**
 * Costs are counted in whole nano-dollars: as doubles, sums of them are exact up to nine million dollars, in whatever order they
 * are made.
 */
const NANOS_A_DOLLAR = 1e9
const NANOS_OF_A_TOKEN_AT_A_DOLLAR_A_MILLION = 1000

/** What these tokens cost, in nano-dollars. */
export function costOf(price: ModelPrice, { inputTokens, cachedInputTokens, outputTokens }: PaidTokens): number {
  const { input, cachedInput, output } = price
  const fresh = inputTokens - cachedInputTokens
  const usdPerMillion = fresh * input + cachedInputTokens * cachedInput + outputTokens * output
  return Math.round(usdPerMillion * NANOS_OF_A_TOKEN_AT_A_DOLLAR_A_MILLION)
}

/** Null stays null: a cost that is not known. */
export function usdOf(nanos: number | null): number | null {
  return nanos === null ? null : nanos / NANOS_A_DOLLAR
}

const CENTS = new Intl.NumberFormat(undefined, {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 4,
})

/** Formats an amount in US dollars with enough digits for the prices of models. */
export function wordsOfCost(usd: number): string {
  return usd > 0 && usd < 0.0001 ? 'under $0.0001' : CENTS.format(usd)
}

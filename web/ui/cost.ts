const CENTS = new Intl.NumberFormat(undefined, {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 4,
})

/** An amount of money, as small as models make it. */
export function wordsOfCost(usd: number): string {
  return usd > 0 && usd < 0.0001 ? 'under $0.0001' : CENTS.format(usd)
}

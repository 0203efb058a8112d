import { z } from 'zod'
import type { ModelPrice } from '../lib/model-cost.ts'
import { parseModelName } from '../lib/model-name.ts'
import { readJsonSetting } from './json-setting.ts'
import shippedPrices from './shipped-prices.json' with { type: 'json' }

/** Prices by model name. */
export type ModelPrices = ReadonlyMap<string, ModelPrice>

/** The prices, and one line for each fault. */
export interface ReadPrices {
  prices: ModelPrices
  faults: string[]
}

const DEMO_COSTS_NOTHING: [string, ModelPrice] = ['demo', { input: 0, cachedInput: 0, output: 0 }]

const usd = z.number('must be a price in USD per million tokens').nonnegative('must not be less than 0')
const PRICE = z.strictObject({ input: usd, cachedInput: usd.optional(), output: usd }).transform((price) => ({
  ...price,
  cachedInput: price.cachedInput ?? price.input,
}))

/**
 * Returns the public prices of well-known models, as of the date in the file. `openai.chat` has the same prices as
 * `openai`.
 */
function readShippedPrices(): [string, ModelPrice][] {
  return Object.entries<Record<string, unknown>>(shippedPrices.providers).flatMap(([provider, models]) => {
    const names = provider === 'openai' ? ['openai', 'openai.chat'] : [provider]
    return Object.entries(models).flatMap(([model, price]) =>
      names.map((name): [string, ModelPrice] => [`${name}:${model}`, PRICE.parse(price)]),
    )
  })
}

/**
 * Reads PARLEY_PRICES, which is JSON, `file:` followed by a path, or `off` for no prices. These prices override those
 * that Parley ships. The cost of a model without a price is unknown. `demo` is free.
 */
export function readModelPrices(text: string | undefined): ReadPrices {
  if (text === 'off') return { prices: new Map([DEMO_COSTS_NOTHING]), faults: [] }
  const faults: string[] = []
  const read = text === undefined ? null : readJsonSetting(text)
  if (read?.type === 'fault') faults.push(`PARLEY_PRICES: ${read.fault}`)
  const given = read?.type === 'value' ? read.value : {}
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    return { prices: new Map(), faults: ['PARLEY_PRICES: must be an object that maps <provider>:<model> to prices'] }
  }
  const prices = Object.entries(given).flatMap(([name, value]): [string, ModelPrice][] => {
    const shown = JSON.stringify(name.slice(0, 100))
    if (parseModelName(name) === null) faults.push(`PARLEY_PRICES: ${shown} does not have the form <provider>:<model>`)
    const { data, error } = PRICE.safeParse(value)
    faults.push(
      ...(error?.issues ?? []).map(({ path, message }) => `PARLEY_PRICES: ${[shown, ...path].join('.')}: ${message}`),
    )
    return data === undefined ? [] : [[name, data]]
  })
  return { prices: new Map([DEMO_COSTS_NOTHING, ...readShippedPrices(), ...prices]), faults }
}

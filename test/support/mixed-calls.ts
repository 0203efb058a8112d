import type { JsonObject } from '../../src/lib/json.ts'

/** A call of the fixture, and how the people of the room would decide on it. */
export interface MixedCall {
  toolName: string
  input: JsonObject
  /** Whether the people would approve it. */
  isWelcome: boolean
}

const tool = (name: string, properties: JsonObject, more: object = {}) => ({
  name,
  description: 'Acts for the shop.',
  inputSchema: { type: 'object', properties, required: Object.keys(properties) },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
  ...more,
})

/** The tools of an agent in a small shop, all of which need approval. No grant may cover closing accounts. */
export const SHOP_TOOLS = [
  tool('refund', { order: { type: 'string' }, amount: { type: 'number' } }),
  tool('restock', { item: { type: 'string' }, quantity: { type: 'integer' } }),
  tool('write_letter', { to: { type: 'string' }, template: { type: 'string' } }),
  tool('close_account', { customer: { type: 'string' } }, { alwaysAsk: true }),
]

/** The limits of the grants that people propose on the first call of a tool. */
export const SHOP_BOUNDS: Record<string, JsonObject> = {
  refund: {
    inputSchema: { properties: { amount: { maximum: 40 } } },
    amountProperty: 'amount',
    maxAmount: 900,
    maxCalls: 60,
  },
  restock: {
    inputSchema: { properties: { item: { enum: ['tea', 'soap'] }, quantity: { maximum: 20 } } },
    maxCalls: 40,
  },
  write_letter: { inputSchema: { properties: { template: { const: 'thanks' } } }, maxCalls: 30 },
}

/**
 * A day of a small shop: 100 calls in an order that looks random but never changes. Most are small and similar. Some are
 * unusual, and people would approve some of those.
 */
export function mixedCalls(): MixedCall[] {
  const calls: MixedCall[] = []
  for (let n = 0; n < 45; n++) {
    const amount = n % 9 === 4 ? 120 : n % 15 === 7 ? 900 : 5 + (n % 30)
    calls.push({ toolName: 'refund', input: { order: `order ${n}`, amount }, isWelcome: amount < 500 })
  }
  for (let n = 0; n < 28; n++) {
    const [item, quantity] =
      n % 7 === 3 ? ['gold leaf', 1] : [n % 2 === 0 ? 'tea' : 'soap', n % 14 === 5 ? 50 : 3 + n / 2]
    const input = { item, quantity: Math.floor(Number(quantity)) }
    calls.push({ toolName: 'restock', input, isWelcome: item !== 'gold leaf' })
  }
  for (let n = 0; n < 20; n++) {
    const template = n % 10 === 9 ? 'apology' : 'thanks'
    calls.push({ toolName: 'write_letter', input: { to: `customer ${n}`, template }, isWelcome: true })
  }
  for (let n = 0; n < 7; n++) {
    calls.push({ toolName: 'close_account', input: { customer: `customer ${n}` }, isWelcome: n % 3 === 0 })
  }
  // 37 and 100 have no common divisor, so each position occurs once.
  return calls.map((_, at) => calls[(at * 37) % calls.length] as MixedCall)
}

import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { readModelPrices } from '../../src/config/model-prices.ts'
import shippedPrices from '../../src/config/shipped-prices.json' with { type: 'json' }
import { type ConfigError, readConfig } from '../../src/config.ts'
import { costOf, usdOf } from '../../src/lib/model-cost.ts'
import { parseModelName } from '../../src/lib/model-name.ts'
import { makeScratchFolder } from '../support/scratch.ts'

const MINI = { input: 0.25, cachedInput: 0.025, output: 2 }

describe('the prices of models', () => {
  test('are given as JSON or in a file; cached input costs as much as other input by default', async () => {
    const folder = await makeScratchFolder('parley-prices-')
    const file = path.join(folder, 'prices.json')
    const text = JSON.stringify({ 'openai:gpt-5-mini': MINI, 'ollama:llama3.1:8b': { input: 1, output: 2 } })
    await writeFile(file, text)
    for (const setting of [text, `file:${file}`]) {
      const { prices, faults } = readModelPrices(setting)
      expect(faults).toEqual([])
      expect(Object.fromEntries(prices)).toMatchObject({
        'openai:gpt-5-mini': MINI,
        'ollama:llama3.1:8b': { input: 1, cachedInput: 1, output: 2 },
        demo: { input: 0, cachedInput: 0, output: 0 },
      })
    }
    await rm(folder, { recursive: true })
  })

  test('are shipped for well-known models, with a date; the setting overrides single prices, or disables all with "off"', () => {
    const shipped = readModelPrices(undefined).prices
    expect(shipped.get('openai:gpt-5-mini')).toEqual(MINI)
    expect(shipped.get('openai.chat:gpt-5-mini')).toEqual(MINI)
    expect(shipped.get('anthropic:claude-haiku-4-5')).toEqual({ input: 1, cachedInput: 0.1, output: 5 })
    expect(shipped.get('google:gemini-2.5-flash')).toMatchObject({ input: 0.3, output: 2.5 })
    expect(shippedPrices.asOf).toMatch(/^\d{4}-\d{2}-\d{2}$/)
    expect([...shipped.keys()].filter((name) => parseModelName(name) === null)).toEqual([])
    const { prices } = readModelPrices('{"openai:gpt-5-mini":{"input":7,"output":8}}')
    expect(prices.get('openai:gpt-5-mini')).toEqual({ input: 7, cachedInput: 7, output: 8 })
    expect(prices.get('openai:gpt-5')).toEqual(shipped.get('openai:gpt-5'))
    expect([...readModelPrices('off').prices.keys()]).toEqual(['demo'])
    expect(readConfig({ PARLEY_PRICES: 'off' }).prices.has('openai:gpt-5-mini')).toBe(false)
  })

  test.each([
    ['nonsense', 'must be JSON'],
    ['[]', 'must be an object that maps <provider>:<model> to prices'],
    ['file:/no/such/file.json', 'the file cannot be read (ENOENT)'],
    ['{"gpt":{"input":1,"output":1}}', '"gpt" does not have the form <provider>:<model>'],
    ['{"a:b":{"input":1}}', '"a:b".output: must be a price in USD per million tokens'],
    ['{"a:b":{"input":-1,"output":1}}', '"a:b".input: must not be less than 0'],
    ['{"a:b":{"input":"1","output":1}}', '"a:b".input: must be a price in USD per million tokens'],
  ])('invalid prices stop the start, with the reason: %s', (PARLEY_PRICES, fault) => {
    expect(() => readConfig({ PARLEY_PRICES })).toThrow(
      expect.objectContaining<Partial<ConfigError>>({ faults: [`PARLEY_PRICES: ${fault}`] }),
    )
  })

  test('apply to a million tokens of each type', () => {
    const tokens = { inputTokens: 2_000_000, cachedInputTokens: 1_000_000, outputTokens: 1_000_000 }
    expect(usdOf(costOf(MINI, tokens))).toBe(2.275)
    expect(usdOf(costOf(MINI, { inputTokens: 1, cachedInputTokens: 1, outputTokens: 0 }))).toBe(0.000000025)
  })
})

import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { readModelPrices } from '../../src/config/model-prices.ts'
import { type ConfigError, readConfig } from '../../src/config.ts'
import { costOf, usdOf } from '../../src/lib/model-cost.ts'
import { makeScratchFolder } from '../support/scratch.ts'

const MINI = { input: 0.25, cachedInput: 0.025, output: 2 }

describe('the prices of models', () => {
  test('are JSON, or in a file; what is cached costs as much as other input unless told', async () => {
    const folder = await makeScratchFolder('parley-prices-')
    const file = path.join(folder, 'prices.json')
    const text = JSON.stringify({ 'openai:gpt-5-mini': MINI, 'ollama:llama3.1:8b': { input: 1, output: 2 } })
    await writeFile(file, text)
    for (const setting of [text, `file:${file}`]) {
      const { prices, faults } = readModelPrices(setting)
      expect(faults).toEqual([])
      expect(Object.fromEntries(prices)).toEqual({
        'openai:gpt-5-mini': MINI,
        'ollama:llama3.1:8b': { input: 1, cachedInput: 1, output: 2 },
        demo: { input: 0, cachedInput: 0, output: 0 },
      })
    }
    await rm(folder, { recursive: true })
  })

  test.each([
    ['nonsense', 'must be JSON'],
    ['[]', 'must be an object of prices by <provider>:<model>'],
    ['file:/no/such/file.json', 'the file cannot be read (ENOENT)'],
    ['{"gpt":{"input":1,"output":1}}', '"gpt" does not have the form <provider>:<model>'],
    ['{"a:b":{"input":1}}', '"a:b".output: must be a number of USD per million tokens'],
    ['{"a:b":{"input":-1,"output":1}}', '"a:b".input: must not be less than 0'],
    ['{"a:b":{"input":"1","output":1}}', '"a:b".input: must be a number of USD per million tokens'],
  ])('what is none stops the start, and says what it is: %s', (PARLEY_PRICES, fault) => {
    expect(() => readConfig({ PARLEY_PRICES })).toThrow(
      expect.objectContaining<Partial<ConfigError>>({ faults: [`PARLEY_PRICES: ${fault}`] }),
    )
  })

  test('a million tokens of each kind cost their prices', () => {
    const tokens = { inputTokens: 2_000_000, cachedInputTokens: 1_000_000, outputTokens: 1_000_000 }
    expect(usdOf(costOf(MINI, tokens))).toBe(2.275)
    expect(usdOf(costOf(MINI, { inputTokens: 1, cachedInputTokens: 1, outputTokens: 0 }))).toBe(0.000000025)
  })
})

import { describe, expect, test } from 'vitest'
import type { SceneAgent } from '../../src/context/scene.ts'
import { endAfter, type PerformEnd } from '../../src/engine/step-end.ts'
import type { JournaledStep } from '../../src/runs/journal.ts'

const AGENT = { maxSteps: 3, maxToolCalls: 4, tokenBudget: 100 } as unknown as SceneAgent
const SKIP = { type: 'skip', reason: null } as const

function step(calls: number, { finishReason = 'stop', tokens = 10 } = {}): JournaledStep {
  const assistant = { role: 'assistant', content: 'Done.' }
  const usage = { inputTokens: 0, cachedInputTokens: 0, outputTokens: tokens }
  return { step: { assistant, finishReason, ...usage }, calls: Array(calls).fill({}) } as unknown as JournaledStep
}

const finished = (stopReason: string) => ({ type: 'finished', stopReason, text: 'Done.' })
const failed = (blame: string) => ({ type: 'failed', blame })

const TABLE: [name: string, steps: JournaledStep[], end: object | null][] = [
  ['nothing yet', [], null],
  ['a step with calls', [step(1)], null],
  ['a step without calls', [step(1), step(0)], finished('FINISHED')],
  ['the last tool call', [step(2), step(2)], finished('MAX_TOOL_CALLS')],
  ['the last step', [step(1), step(1), step(1)], finished('MAX_STEPS')],
  ['the last tokens', [step(1, { tokens: 101 })], finished('TOKEN_BUDGET')],
  ['a content filter', [step(0, { finishReason: 'content-filter' })], failed('prompt')],
  ['a broken stream', [step(0, { finishReason: 'interrupted' })], failed('unclear')],
  ['an error from the model', [step(1, { finishReason: 'error' })], failed('unclear')],
  ['the output limit in a call', [step(1, { finishReason: 'length' })], failed('limit')],
  ['the output limit in a text', [step(0, { finishReason: 'length' })], finished('FINISHED')],
]

describe('after a step, a run ends or continues', () => {
  const endOf = (steps: JournaledStep[], changes: Partial<Parameters<typeof endAfter>[1]> = {}): PerformEnd | null =>
    endAfter(steps, { agent: AGENT, mind: { isDone: () => false }, ending: null, ...changes })

  test.each(TABLE)('%s', (_, steps, end) => {
    if (end === null) expect(endOf(steps)).toBeNull()
    else expect(endOf(steps)).toMatchObject(end)
  })

  test('an end that a tool requested takes precedence', () => {
    expect(endOf([step(0, { finishReason: 'error' })], { ending: SKIP })).toEqual({ type: 'ending', ending: SKIP })
  })

  test('a persistent agent that has answered everything is done, unless its step made no calls', () => {
    const mind = { isDone: () => true }
    expect(endOf([step(1)], { mind })).toMatchObject({ stopReason: 'ALL_ANSWERED' })
    expect(endOf([step(0)], { mind })).toMatchObject({ stopReason: 'FINISHED' })
  })
})

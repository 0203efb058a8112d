import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { startApplication, type TestApplication, type TestApplicationOptions } from './application.ts'
import { type Thinking, thinkingOn } from './thinking.ts'

/**
 * Opens, for the tests of a `describe`, an application with what tests of persistent minds do there, and closes it. Before each of them
 * the models forget their scripts; none of them may ask the models for what cannot be.
 */
export function playMinds(
  stack: TestApplicationOptions['stack'],
  take: (opened: { parley: TestApplication; thinking: Thinking }) => void,
): void {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack })
    take({ parley, thinking: thinkingOn(parley) })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))
}

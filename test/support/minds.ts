import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { startApplication, type TestApplication, type TestApplicationOptions } from './application.ts'
import { type Thinking, thinkingOn } from './thinking.ts'

/**
 * Opens an application with helpers for tests of persistent agents, for the tests of a `describe`, and closes it. Clears the
 * scripts of the models before each test. No test may send the models an invalid request.
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

import fc from 'fast-check'
import { describeBrokenRuns } from '../support/broken-off.ts'

/** Of each kind of run one statement, another each day; `npm run test:faults` takes all of them. */
const seed = Math.floor(Date.now() / 86_400_000)

describeBrokenRuns({
  choose: (count) => fc.sample(fc.integer({ min: 1, max: count }), { seed, numRuns: 1 }),
  stages: 1,
  timeout: 120_000,
})

import { describeBrokenRuns } from '../support/broken-off.ts'
import { SHORT } from './deployment.ts'

/** Every statement; in CI, which has met some of them in the suite, every fifth. */
describeBrokenRuns({
  choose: (count) => Array.from({ length: count }, (_, index) => index + 1).filter((n) => !SHORT || n % 5 === 0),
  stages: 3,
  timeout: 400_000,
})

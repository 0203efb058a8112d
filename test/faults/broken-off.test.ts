import { describeBrokenRuns } from '../support/broken-off.ts'
import { SHORT } from './deployment.ts'

/** Every statement; in CI, which has met some of them in the suite, every fifteenth. */
describeBrokenRuns({
  choose: (count) => Array.from({ length: count }, (_, index) => index + 1).filter((n) => !SHORT || n % 15 === 0),
  stages: 3,
  timeout: 1_200_000,
})

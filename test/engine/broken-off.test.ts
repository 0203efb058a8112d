import { describeBrokenRuns } from '../support/broken-off.ts'
import { runsOf, sampleOf } from '../support/effort.ts'

/** One statement of each kind of run. The long form of the test covers all statements. */
describeBrokenRuns({
  choose: (count) =>
    sampleOf(
      Array.from({ length: count }, (_, index) => index + 1),
      1,
    ),
  stages: runsOf({ usual: 1, nightly: 3 }),
  timeout: runsOf({ usual: 120_000, nightly: 1_200_000 }),
})

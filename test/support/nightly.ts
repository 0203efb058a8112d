/** Returns the number of runs of a property test: `usual`, or `nightly` with NIGHTLY=1, which `.ci/nightly` sets. */
export const runsOf = ({ usual, nightly }: { usual: number; nightly: number }) =>
  process.env['NIGHTLY'] === '1' ? nightly : usual

/**
 * How much a property test plays: little by default, and much with NIGHTLY=1, which `.ci/nightly` sets. A property that has found nothing new in
 * hundreds of runs should not keep a developer waiting.
 */
export const runsOf = ({ usual, nightly }: { usual: number; nightly: number }) =>
  process.env['NIGHTLY'] === '1' ? nightly : usual

import { runId } from './run-id.ts'

/** `EFFORT=nightly` selects the long form of every test that has one. `.ci/nightly` sets it. */
export const isNightly = process.env['EFFORT'] === 'nightly'

/** Returns a number, for example of the runs of a property test: `usual`, or `nightly` in the long form. */
export const runsOf = ({ usual, nightly }: { usual: number; nightly: number }) => (isNightly ? nightly : usual)

/** All tests of a run share one seed, which TEST_SEED can repeat. */
const SEED = Number(process.env['TEST_SEED'] ?? Number.parseInt(runId(), 16) % 1_000_000) || 1

/**
 * Returns all items in the long form, otherwise a random choice of `usual` items in their order. Prints the seed, with which a
 * failed run can be repeated.
 */
export function sampleOf<Item>(items: readonly Item[], usual: number): Item[] {
  if (isNightly || items.length <= usual) return [...items]
  console.log(`a sample of ${usual} of ${items.length}: TEST_SEED=${SEED}`)
  let state = SEED
  const random = () => {
    // Source: mulberry32, public domain.
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const drawn = items.map((_, index) => ({ index, key: random() })).sort((one, other) => one.key - other.key)
  const chosen = new Set(drawn.slice(0, usual).map(({ index }) => index))
  return items.filter((_, index) => chosen.has(index))
}

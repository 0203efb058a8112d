import { describe, expect, test } from 'vitest'
import { attackAtRandom } from '../support/attack/randomized-attack.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { hasPostgres } from '../support/postgres.ts'
import { skipFor } from '../support/skip-for.ts'
import { findRedisBinary } from '../support/throwaway-redis.ts'

/** ATTACK=full is what `.ci/nightly` runs: ten minutes on each stack. ATTACK_SECONDS sets any other length. */
const IS_FULL = process.env['ATTACK'] === 'full'
const SECONDS = Number(process.env['ATTACK_SECONDS'] ?? (IS_FULL ? 600 : 30))
const IDLE_SECONDS = IS_FULL ? 30 : 10
/** ATTACK_SEED repeats what was drawn, ATTACK_ONLY="query much,create spaces" draws from these actions alone. */
const SEED = Number(process.env['ATTACK_SEED'] ?? Date.now() % 1_000_000)
const ONLY = process.env['ATTACK_ONLY']?.split(',')
/** Time for the start, the idle measurement, the console checks and the pause for garbage collection. */
const MORE_SECONDS = 300

const hasBrowser = hasBrowserFor('the look at the console under attack')
const hasServices = hasPostgres && findRedisBinary() !== null
if (!hasServices) skipFor('No PostgreSQL and redis-server here for the randomized attack')
const STACKS = hasServices ? (['embedded', 'postgres'] as const) : (['embedded'] as const)

describe(`hostile members at random, with ATTACK_SEED=${SEED}`, () => {
  test.each(STACKS)(
    `do not keep an honest member from being served for ${SECONDS} s, on the %s stack`,
    { timeout: (SECONDS + MORE_SECONDS) * 1000 },
    async (stack) => {
      const { findings, report } = await attackAtRandom({
        stack,
        seed: SEED,
        seconds: SECONDS,
        idleSeconds: IDLE_SECONDS,
        hasBrowser,
        ...(ONLY === undefined ? {} : { only: ONLY }),
      })
      console.log(`ATTACK_SEED=${SEED}, ${stack}:\n${report}`)
      expect(findings).toEqual([])
    },
  )
})

import { describe, expect, test } from 'vitest'
import { attackAtRandom } from '../support/attack/randomized-attack.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { skipFor } from '../support/skip-for.ts'
import { findRedisBinary } from '../support/throwaway-redis.ts'

/** Each stack is tested for 20 seconds, or for ten minutes in the long form. ATTACK_SECONDS sets any other duration. */
const SECONDS = Number(process.env['ATTACK_SECONDS'] ?? runsOf({ usual: 20, nightly: 600 }))
const IDLE_SECONDS = runsOf({ usual: 6, nightly: 30 })
/** The results of short measurements vary more. */
const MOST_TIMES = runsOf({ usual: 60, nightly: 30 })
/** ATTACK_SEED repeats a sequence. ATTACK_ONLY="query much,create spaces" restricts the sequence to these actions. */
const SEED = Number(process.env['ATTACK_SEED'] ?? Date.now() % 1_000_000)
const ONLY = process.env['ATTACK_ONLY']?.split(',')
/**
 * Additional time for the start, the measurement without load, the checks of the console, and the pause for garbage collection.
 */
const MORE_SECONDS = 420

const hasBrowser = hasBrowserFor('the check of the console under attack')
const hasServices = hasPostgres && findRedisBinary() !== null
if (!hasServices) skipFor('No PostgreSQL and redis-server here for the randomized attack')
const STACKS = hasServices ? (['embedded', 'postgres'] as const) : (['embedded'] as const)

describe(`random hostile members, with ATTACK_SEED=${SEED}`, () => {
  test.each(STACKS)(
    `an honest member is served for ${SECONDS} s, on the %s stack`,
    { timeout: (SECONDS + MORE_SECONDS) * 1000 },
    async (stack) => {
      const { findings, report } = await attackAtRandom({
        stack,
        seed: SEED,
        seconds: SECONDS,
        idleSeconds: IDLE_SECONDS,
        mostTimes: MOST_TIMES,
        hasBrowser,
        ...(ONLY === undefined ? {} : { only: ONLY }),
      })
      console.log(`ATTACK_SEED=${SEED}, ${stack}:\n${report}`)
      expect(findings).toEqual([])
    },
  )
})

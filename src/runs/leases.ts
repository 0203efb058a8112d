import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { openOwnConnection } from '../platform/own-connection.ts'
import type { Platform } from '../platform/platform.ts'
import { type Claim, LEASE } from './claiming.ts'
import { keepPresent } from './presence.ts'
import type { StopSignals } from './stop-signal.ts'

/** A claimed run in the hands of this process. */
export interface RunInHands {
  /** Aborts when the run is not this claim's any more: it was stopped, its time was over, or another worker has it. */
  signal: AbortSignal
  letGo(): void
}

/** Keeps the claims of this process: what it has in hands stays its own while the process lives, and no longer. */
export interface Leases {
  /** To be called before anything else is awaited once a run is claimed. */
  take(claim: Claim): RunInHands
  close(): Promise<void>
}

const LOOK_MS = 1000
/** What is left of a lease when it is renewed: so it has three seconds of age, and lapses after three failed looks more. */
const RENEWED_BELOW = Prisma.sql`interval '7.5 seconds'`

/**
 * Once a second, and whenever signals may have been lost, one statement over a connection of its own: it renews the leases that
 * are three seconds old, and says which runs are this process's still. Work on the others is aborted, so that a stop whose signal
 * got lost is heard after all.
 */
export async function createLeases(platform: Platform, stopSignals: StopSignals): Promise<Leases> {
  const { signals, logger } = platform
  const connection = openOwnConnection(platform)
  const inHands = new Map<string, { attempt: number; lose: () => void }>()
  const ended = new AbortController()

  async function look(): Promise<void> {
    const asked = [...inHands]
    if (asked.length === 0) return
    const rows = await connection.query<{ id: string }>(renewal(asked.map(([id, { attempt }]) => ({ id, attempt }))))
    const kept = new Set(rows.map(({ id }) => id))
    for (const [id, inHand] of asked) if (!kept.has(id) && inHands.get(id) === inHand) inHand.lose()
  }

  const tryToLook = () =>
    look().catch((error) => logger.warn({ error: messageOf(error) }, 'could not renew leases; retrying'))

  async function lookAgainAndAgain(): Promise<void> {
    while (!ended.signal.aborted) {
      await sleep(LOOK_MS, ended.signal)
      await tryToLook()
    }
  }

  await stopSignals.subscribe()
  const presence = keepPresent(platform)
  const stopListening = signals.onReconnect(() => void tryToLook())
  const looking = lookAgainAndAgain()

  return {
    take({ run: { id }, attempt }) {
      const abort = new AbortController()
      const lose = () => abort.abort('lost')
      const inHand = { attempt, lose }
      inHands.set(id, inHand)
      const stopHearing = stopSignals.listen(id, lose)
      return {
        signal: abort.signal,
        letGo() {
          if (inHands.get(id) !== inHand) return
          inHands.delete(id)
          stopHearing()
        },
      }
    },
    async close() {
      ended.abort()
      stopListening()
      await looking
      await Promise.all([connection.close(), presence.close()])
    },
  }
}

/** A lease that has lapsed, and that nobody has taken over yet, is renewed too; a row that somebody has locked is left for next time. */
function renewal(claims: { id: string; attempt: number }[]): Prisma.Sql {
  const ids = claims.map(({ id }) => id)
  const attempts = claims.map(({ attempt }) => attempt)
  const isMine = Prisma.sql`r.id = c.id AND r.attempt = c.attempt AND r.status = 'RUNNING'`
  return Prisma.sql`
    WITH claims AS MATERIALIZED (
      SELECT * FROM unnest(${ids}::text[], ${attempts}::int[]) AS c(id, attempt)
    ), old AS MATERIALIZED (
      SELECT r.id FROM claims c JOIN "Run" r ON ${isMine} WHERE r."leaseUntil" < clock_timestamp() + ${RENEWED_BELOW}
      FOR NO KEY UPDATE OF r SKIP LOCKED
    ), renewed AS (
      UPDATE "Run" r SET "leaseUntil" = clock_timestamp() + ${LEASE}, "claimableAt" = NULL FROM old WHERE r.id = old.id
    )
    SELECT r.id FROM claims c JOIN "Run" r ON ${isMine}`
}

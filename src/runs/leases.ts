import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { openOwnConnection } from '../platform/own-connection.ts'
import type { Platform } from '../platform/platform.ts'
import { renewLeasesSql } from '../stores/run-store.ts'
import type { Claim } from './claiming.ts'
import { keepPresent } from './presence.ts'
import type { StopSignals } from './stop-signal.ts'

/** A run that this process has claimed. */
export interface RunInHands {
  /**
   * Aborts when the run no longer belongs to this attempt, because it was stopped, has timed out, or was claimed by
   * another worker.
   */
  signal: AbortSignal
  letGo(): void
}

/** Renews the leases of the runs that this process has claimed, as long as the process lives. */
export interface Leases {
  /** Registers a claimed run. Call this before the first await after the claim. */
  take(claim: Claim): RunInHands
  close(): Promise<void>
}

const LOOK_MS = 1000

/**
 * Creates the leases. Once a second, and whenever the signals have reconnected, one statement renews the leases that
 * are three seconds old. It uses a separate connection. It returns the runs that still belong to this process, and all
 * other runs are aborted. So a stop takes effect even if its signal was lost.
 */
export async function createLeases(platform: Platform, stopSignals: StopSignals): Promise<Leases> {
  const { signals, logger } = platform
  const connection = openOwnConnection(platform)
  const inHands = new Map<string, { attempt: number; lose: () => void }>()
  const ended = new AbortController()

  async function look(): Promise<void> {
    const asked = [...inHands]
    if (asked.length === 0) return
    const rows = await connection.query<{ id: string }>(
      renewLeasesSql(asked.map(([id, { attempt }]) => ({ id, attempt }))),
    )
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

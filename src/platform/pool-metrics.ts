import pg from 'pg'
import type { Registry } from 'prom-client'
import { createFairTurns, type FairTurns } from '../lib/fair-turns.ts'
import { gauge, histogram } from '../lib/metrics.ts'
import { isBoundedHere, requesterHere } from '../lib/requester-context.ts'
import { createLoopPlaces } from './loop-places.ts'

type Callback = (...result: unknown[]) => void

const WAITS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 20]

/** Opens a pool with metrics for its connections and for the time that statements wait for one. */
export function openPool(config: pg.PoolConfig, metrics: Registry | undefined): pg.Pool {
  const { max = 10, connectionTimeoutMillis = 0 } = config
  const pool = new pg.Pool(config)
  const turns = takeTurns(pool, { places: max, longestWaitMs: connectionTimeoutMillis })
  if (metrics === undefined) return pool
  gauge(metrics, 'parley_pool_connections', 'Open PostgreSQL connections of this process.', () => pool.totalCount)
  gauge(
    metrics,
    'parley_pool_busy_connections',
    'PostgreSQL connections of this process that are in use.',
    () => pool.totalCount - pool.idleCount,
  )
  gauge(
    metrics,
    'parley_pool_waiting',
    'Queries and transactions that wait for a PostgreSQL connection.',
    () => pool.waitingCount + turns.waitingCount(),
  )
  const waits = histogram(
    metrics,
    'parley_pool_wait_seconds',
    'Seconds spent waiting for a PostgreSQL connection while all were in use; immediate checkouts are not counted.',
    { buckets: WAITS },
  )
  const connect = pool.connect.bind(pool) as (callback?: Callback) => Promise<pg.PoolClient> | undefined
  const measured = (callback?: Callback) => {
    const end = turns.isFull() ? waits.startTimer() : () => {}
    if (callback === undefined) return connect()?.finally(end)
    return connect((...result) => {
      end()
      callback(...result)
    })
  }
  pool.connect = measured as typeof pool.connect
  return pool
}

/**
 * Gives connections to requesters in fair turns. The pool's own queue does not distinguish requesters, so one member's
 * queries would delay everybody else's.
 */
function takeTurns(pool: pg.Pool, { places, longestWaitMs }: { places: number; longestWaitMs: number }): FairTurns {
  const turns = createFairTurns({ places: () => places, unboundedPlaces: createLoopPlaces({ most: places }) })
  const connect: (callback: Callback) => void = pool.connect.bind(pool)

  /** Connects and calls back like the pool's own method. Releasing the connection also ends the turn. */
  function connectIn(end: () => void, callback: Callback): void {
    connect((error, client) => {
      if (client === undefined) {
        end()
        return callback(error)
      }
      const connection = client as pg.PoolClient
      const release = connection.release
      connection.release = (failure) => {
        release(failure)
        end()
      }
      callback(undefined, connection, connection.release)
    })
  }

  function waitForTurn(callback: Callback): void {
    const longestWait = longestWaitMs > 0 ? { longestWaitMs } : {}
    turns.take(requesterHere(), { isBounded: isBoundedHere(), ...longestWait }).then(
      (end) => connectIn(end, callback),
      (error) => callback(error),
    )
  }

  function connectInTurn(callback: Callback): void {
    const end = turns.takeNow(requesterHere(), { isBounded: isBoundedHere() })
    if (end === null) waitForTurn(callback)
    else connectIn(end, callback)
  }

  pool.connect = ((callback?: Callback) => {
    if (callback !== undefined) return connectInTurn(callback)
    return new Promise<unknown>((resolve, reject) =>
      connectInTurn((error, client) => (client === undefined ? reject(error) : resolve(client))),
    )
  }) as typeof pool.connect
  return turns
}

import pg from 'pg'
import type { Registry } from 'prom-client'
import { createDeferred } from '../lib/async.ts'
import { gauge, histogram } from '../lib/metrics.ts'
import { requesterHere } from '../lib/requester-context.ts'
import { createFairTurns, type FairTurns } from './fair-turns.ts'
import { createLoopPlaces } from './loop-places.ts'

type Callback = (...result: unknown[]) => void

const WAITS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 20]

/** Opens a pool that reports its connections and the time that statements wait for one. */
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
 * Gives connections to requesters in turn: the pool's own queue does not distinguish requesters, and one member's
 * queries would block everybody else's.
 */
function takeTurns(pool: pg.Pool, { places, longestWaitMs }: { places: number; longestWaitMs: number }): FairTurns {
  const turns = createFairTurns({ places: () => places, requesterPlaces: createLoopPlaces({ most: places }) })
  const connect: () => Promise<pg.PoolClient> = pool.connect.bind(pool)

  async function connectInTurn(): Promise<pg.PoolClient> {
    const turn = turns.take(requesterHere())
    const timer = createDeferred<null>()
    const timeout = longestWaitMs > 0 ? setTimeout(() => timer.resolve(null), longestWaitMs) : undefined
    const end = await Promise.race([turn, timer.promise])
    clearTimeout(timeout)
    if (end === null) {
      void turn.then((unwanted) => unwanted())
      // Like the pool's own method.
      throw new Error('timeout exceeded when trying to connect')
    }
    try {
      const client = await connect()
      const release = client.release.bind(client)
      client.release = (error) => {
        release(error)
        end()
      }
      return client
    } catch (error) {
      end()
      throw error
    }
  }

  pool.connect = ((callback?: Callback) => {
    const connected = connectInTurn()
    if (callback === undefined) return connected
    connected.then(
      (client) => callback(undefined, client, client.release),
      (error) => callback(error),
    )
  }) as typeof pool.connect
  return turns
}

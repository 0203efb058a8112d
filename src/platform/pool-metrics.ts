import pg from 'pg'
import type { Registry } from 'prom-client'
import { gauge, histogram } from '../lib/metrics.ts'

type Callback = (...result: unknown[]) => void

const WAITS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 20]

/** Opens a pool that reports its connections and the time that statements wait for one. */
export function openPool(config: pg.PoolConfig, metrics: Registry | undefined): pg.Pool {
  const pool = new pg.Pool(config)
  if (metrics === undefined) return pool
  const { max = 10 } = config
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
    () => pool.waitingCount,
  )
  const waits = histogram(
    metrics,
    'parley_pool_wait_seconds',
    'Seconds spent waiting for a PostgreSQL connection while all were in use; immediate checkouts are not counted.',
    { buckets: WAITS },
  )
  const connect = pool.connect.bind(pool) as (callback?: Callback) => Promise<pg.PoolClient> | undefined
  const measured = (callback?: Callback) => {
    const end = pool.idleCount === 0 && pool.totalCount >= max ? waits.startTimer() : () => {}
    if (callback === undefined) return connect()?.finally(end)
    return connect((...result) => {
      end()
      callback(...result)
    })
  }
  pool.connect = measured as typeof pool.connect
  return pool
}

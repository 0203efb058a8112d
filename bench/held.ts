import { startCrowd } from './support/crowd.ts'
import { startFanoutServer } from './support/fanout-server.ts'
import { type Benchmark, percentile } from './support/figures.ts'
import { residentMebibytesOf } from './support/stack.ts'

const SOCKETS = 2000
const OF_A_SOCKET = 5
const SPACES = 10
const EVENTS_A_SECOND = 200
const SECONDS = 20
const MARKED = 40

const PAUSED_SOCKETS = 500
const PAUSED = 50
const PAUSED_SECONDS = 15
const MOST_CLOSING_SECONDS = 10

/** Each socket subscribes to half of the spaces; each event reaches half of the sockets. */
async function holdMany() {
  const server = await startFanoutServer('parley-redis', SPACES)
  const crowd = startCrowd()
  const before = await residentMebibytesOf(server.pid)
  const sockets = Array.from({ length: SOCKETS }, (_, index) =>
    Array.from({ length: OF_A_SOCKET }, (_, n) => server.subscribings[(index + 2 * n) % SPACES]!),
  )
  await crowd.ask({ type: 'open', sockets, marked: MARKED })
  const held = await residentMebibytesOf(server.pid)
  await crowd.ask({ type: 'begin' })
  const events = EVENTS_A_SECOND * SECONDS
  const cpuBefore = (await server.ask({ type: 'usage' })).cpuSeconds
  const { cpuSeconds } = await server.ask({ type: 'publish', events, everyMs: 1000 / EVENTS_A_SECOND })
  const { delays, closed } = await crowd.all((events * OF_A_SOCKET) / SPACES)
  crowd.stop()
  await server.stop()
  return {
    delays,
    closed,
    cores: (cpuSeconds - cpuBefore) / SECONDS,
    kibibytes: ((held - before) * 1024) / (SOCKETS * OF_A_SOCKET),
  }
}

/**
 * Measures what happens when some sockets stop reading: the cost for the others, and the time until the server closes the
 * stopped ones.
 */
async function pauseSome() {
  const server = await startFanoutServer('parley-redis')
  const crowd = startCrowd()
  const sockets = Array.from({ length: PAUSED_SOCKETS }, () => [server.subscribings[0]!])
  await crowd.ask({ type: 'open', sockets, marked: MARKED })
  await server.ask({ type: 'publish', events: EVENTS_A_SECOND, everyMs: 1000 / EVENTS_A_SECOND })
  const before = await residentMebibytesOf(server.pid)
  await crowd.ask({ type: 'pause', count: PAUSED })
  await crowd.ask({ type: 'begin' })
  let most = before
  let letGoAfter = Number.NaN
  for (let second = 1; second <= PAUSED_SECONDS; second++) {
    await server.ask({ type: 'publish', events: EVENTS_A_SECOND, everyMs: 1000 / EVENTS_A_SECOND })
    const open = await socketsOf(server.subscribings[0]!.url)
    most = Math.max(most, await residentMebibytesOf(server.pid))
    if (open === PAUSED_SOCKETS - PAUSED && Number.isNaN(letGoAfter)) letGoAfter = second
  }
  const { delays } = await crowd.ask({ type: 'counts' })
  crowd.stop()
  await server.stop()
  return { delays, growth: most - before, letGoAfter }
}

/** Returns the number of open sockets, from the server's metrics. */
async function socketsOf(url: string): Promise<number> {
  const text = await (await fetch(new URL('/metrics', url.replace('ws', 'http')))).text()
  return Number(/^parley_sockets (\d+)/m.exec(text)?.[1])
}

export const held: Benchmark = {
  question: `${SOCKETS * OF_A_SOCKET} subscriptions over ${SOCKETS} sockets at ${EVENTS_A_SECOND} events/s, and ${PAUSED} of ${PAUSED_SOCKETS} sockets that stop reading: do all other sockets get everything in time?`,
  async run() {
    const many = await holdMany()
    const paused = await pauseSome()
    return [
      { what: 'held: an event’s way, p99', value: percentile(many.delays, 0.99), unit: 'ms', bound: { atMost: 250 } },
      { what: 'held: an event’s way, p50', value: percentile(many.delays, 0.5), unit: 'ms' },
      { what: 'held: sockets lost', value: many.closed, unit: '', bound: { atMost: 0 } },
      { what: 'held: messages', value: (EVENTS_A_SECOND * SOCKETS * OF_A_SOCKET) / SPACES, unit: '/s' },
      { what: 'held: CPU of the server', value: many.cores, unit: 'cores', bound: { atMost: 1 } },
      { what: 'held: memory of a subscription', value: many.kibibytes, unit: 'KiB' },
      {
        what: 'paused: an event’s way to the others, p99',
        value: percentile(paused.delays, 0.99),
        unit: 'ms',
        bound: { atMost: 250 },
      },
      { what: 'paused: growth of memory', value: paused.growth, unit: 'MiB', bound: { atMost: 100 } },
      { what: 'paused: let go after', value: paused.letGoAfter, unit: 's', bound: { atMost: MOST_CLOSING_SECONDS } },
    ]
  },
}

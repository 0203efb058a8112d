import { fillLedger } from '../test/support/ledger.ts'
import { startTestServer } from '../test/support/served.ts'
import { type Benchmark, percentile } from './support/figures.ts'

const LOOKS = 50
const WARM_UP = 5
const MOST_MS = 200
const FROM = new Date('2025-01-01')
const TO = new Date('2025-04-11')
const USAGE = `query ($from: DateTime!, $to: DateTime!) {
  usage(from: $from, to: $to, by: [DAY, AGENT]) { day agent { id name } runs inputTokens outputTokens costUsd } }`

/** Returns the duration of each query in ms, except those of the warm-up queries. */
async function timesOf(looks: number, look: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < WARM_UP + looks; n++) {
    const began = performance.now()
    await look()
    if (n >= WARM_UP) times.push(performance.now() - began)
  }
  return times
}

export const usage: Benchmark = {
  question: 'How long does it take to sum the usage of 1,000,000 runs by day and agent, on PostgreSQL?',
  async run({ quick }) {
    const parley = await startTestServer({ stack: 'postgres', worker: false })
    await fillLedger(parley.app.platform.db)
    const admin = await parley.clientOf(parley.admin)
    const looks = quick ? LOOKS / 10 : LOOKS
    const times = await timesOf(looks, () =>
      parley.app.domain.usage.query({ from: FROM, to: TO, by: ['DAY', 'AGENT'] }),
    )
    const asked = await timesOf(looks, async () => {
      const { errors } = await admin.ask(USAGE, { from: FROM, to: TO })
      if (errors) throw new Error(JSON.stringify(errors))
    })
    await admin.close()
    await parley.close()
    return [
      { what: 'median', value: percentile(times, 0.5), unit: 'ms', bound: { atMost: MOST_MS } },
      { what: '95 of 100', value: percentile(times, 0.95), unit: 'ms' },
      {
        what: 'asked by GraphQL, with 10,000 rows of six fields told and read, median',
        value: percentile(asked, 0.5),
        unit: 'ms',
      },
    ]
  },
}

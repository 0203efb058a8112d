import { fillLedger } from '../test/support/ledger.ts'
import { startTestServer } from '../test/support/served.ts'
import { type Benchmark, percentile } from './support/figures.ts'

const LOOKS = 50
const WARM_UP = 5
const MOST_MS = 200
const FROM = new Date('2025-01-01')
const TO = new Date('2025-04-11')

export const usage: Benchmark = {
  question: 'How long does it take to sum the usage of 1,000,000 runs by day and agent, on PostgreSQL?',
  async run({ quick }) {
    const parley = await startTestServer({ stack: 'postgres', worker: false })
    await fillLedger(parley.app.platform.db)
    const times: number[] = []
    for (let n = 0; n < WARM_UP + (quick ? LOOKS / 10 : LOOKS); n++) {
      const began = performance.now()
      await parley.app.api.usage.query({ from: FROM, to: TO, by: ['DAY', 'AGENT'] })
      if (n >= WARM_UP) times.push(performance.now() - began)
    }
    await parley.close()
    return [
      { what: 'median', value: percentile(times, 0.5), unit: 'ms', bound: { atMost: MOST_MS } },
      { what: '95 of 100', value: percentile(times, 0.95), unit: 'ms' },
    ]
  },
}

import { startTestServer } from '../test/support/served.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { idOfWritten, writeMessages } from './support/many-messages.ts'

const FEW = 10_000
const MANY = [1_000_000, 10_000_000]
const QUICK_MANY = [100_000]
const LOOKS = 300
const WARM_UP = 100

const LAST = `query ($id: ID!) { space(id: $id) { messages(last: 50) { edges { node {
  id seq text sender { id name } outcomes { kind } parts { ... on TextPart { text } } } } pageInfo { hasPreviousPage } } } }`
const MIDDLE = `query ($id: ID!, $before: String!) { space(id: $id) { messages(last: 50, before: $before) { edges { node { id text } } } } }`

export const reading: Benchmark = {
  question: `What does it cost to read 50 messages of a space, the last ones and those half way back, at ${FEW.toLocaleString('en')} rows and at ${MANY.map((many) => many.toLocaleString('en')).join(' and ')}, over GraphQL, on PostgreSQL?`,
  mostMinutes: 20,
  async run({ quick }) {
    const parley = await startTestServer({ stack: 'postgres', worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
    const human = await parley.human('Husam')
    const space = await parley.space(human, [])
    const client = await parley.clientOf(human)

    async function took(rows: number): Promise<{ last: number; middle: number }> {
      const before = idOfWritten(Math.floor(rows / 2))
      const times = { last: [] as number[], middle: [] as number[] }
      for (let n = 0; n < WARM_UP + LOOKS; n++) {
        for (const [what, operation] of [
          ['last', LAST],
          ['middle', MIDDLE],
        ] as const) {
          const began = performance.now()
          const { errors } = await client.ask(operation, { id: space.id, before })
          if (errors !== undefined) throw new Error(errors[0]?.message)
          if (n >= WARM_UP) times[what].push(performance.now() - began)
        }
      }
      return { last: percentile(times.last, 0.5), middle: percentile(times.middle, 0.5) }
    }

    const many = { spaceId: space.id, senderIds: [human.id], texts: ['An old message.'] }
    const sizes = [FEW, ...(quick ? QUICK_MANY : MANY)]
    const taken: { rows: number; last: number; middle: number }[] = []
    for (const [index, rows] of sizes.entries()) {
      await writeMessages(parley.app.platform.db, { ...many, from: sizes[index - 1] ?? 0, to: rows })
      taken.push({ rows, ...(await took(rows)) })
    }
    await parley.close()
    const few = taken[0] ?? { last: Number.NaN, middle: Number.NaN }
    return taken.flatMap(({ rows, ...times }) =>
      (['last', 'middle'] as const).map((which): Figure => {
        const figure = { what: `median, ${which} 50 of ${rows.toLocaleString('en')}`, value: times[which], unit: 'ms' }
        return rows === FEW ? figure : { ...figure, bound: { atMost: few[which] * 1.2 } }
      }),
    )
  },
}

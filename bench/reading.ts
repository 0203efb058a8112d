import { startTestServer } from '../test/support/served.ts'
import { type Benchmark, percentile } from './support/figures.ts'
import { idOfWritten, writeMessages } from './support/many-messages.ts'

const FEW = 10_000
const MANY = 1_000_000
const LOOKS = 300
const WARM_UP = 100

const LAST = `query ($id: ID!) { space(id: $id) { messages(last: 50) { edges { node {
  id seq text sender { id name } outcomes { kind } parts { ... on TextPart { text } } } } pageInfo { hasPreviousPage } } } }`
const MIDDLE = `query ($id: ID!, $before: String!) { space(id: $id) { messages(last: 50, before: $before) { edges { node { id text } } } } }`

export const reading: Benchmark = {
  question: `What does it cost to read 50 messages of a space, the last ones and those half way back, at ${FEW.toLocaleString('en')} and at ${MANY.toLocaleString('en')} rows, over GraphQL, on PostgreSQL?`,
  async run({ quick }) {
    const most = quick ? MANY / 10 : MANY
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

    const many = { spaceId: space.id, senderIds: [human.id], texts: ['What was said then.'] }
    await writeMessages(parley.app.platform.db, { ...many, from: 0, to: FEW })
    const few = await took(FEW)
    await writeMessages(parley.app.platform.db, { ...many, from: FEW, to: most })
    const later = await took(most)
    await parley.close()
    return (['last', 'middle'] as const).flatMap((what) => [
      { what: `median, ${what} 50 of ${FEW.toLocaleString('en')}`, value: few[what], unit: 'ms' },
      {
        ...{ what: `median, ${what} 50 of ${most.toLocaleString('en')}`, value: later[what], unit: 'ms' },
        bound: { atMost: few[what] * 1.2 },
      },
    ])
  },
}

import { startTestServer } from '../test/support/served.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { writeMessages } from './support/many-messages.ts'

const MESSAGES = 50_000
const QUICK_MESSAGES = 5_000
const FORKS = 3
/** The promised limit for each stack. */
const MOST_MS = { postgres: 2_000, embedded: 10_000 } as const
const STACKS = ['postgres', 'embedded'] as const

const FORK = `mutation ($input: ForkSpaceInput!) {
  forkSpace(input: $input) { __typename ... on ForkSpacePayload { space { id } } ... on Error { message } } }`

/** Copies a space of a person and an agent with this many messages, through GraphQL. Returns the time of each copy in ms. */
async function timesOf(stack: (typeof STACKS)[number], messages: number): Promise<number[]> {
  const settings = { PARLEY_RATE_REQUESTS: '0', PARLEY_MAX_NEW_SPACES_PER_DAY: '1000' }
  const parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
  const { human, agent, space } = await parley.room()
  const { db } = parley.app.platform
  const texts = Array.from({ length: 100 }, (_, n) => `Message ${n} says where the order is, and when it arrives.`)
  await writeMessages(db, { spaceId: space.id, senderIds: [human.id, agent.id], texts, from: 0, to: messages })
  const admin = await parley.clientOf(parley.admin)
  const times: number[] = []
  for (let n = 0; n < FORKS; n++) {
    const began = performance.now()
    const { data, errors } = await admin.ask<{ forkSpace: { space?: { id: string }; message?: string } }>(FORK, {
      input: { spaceId: space.id },
    })
    times.push(performance.now() - began)
    const copyId = data?.forkSpace.space?.id
    if (copyId === undefined) throw new Error(data?.forkSpace.message ?? errors?.[0]?.message ?? 'There is no copy.')
    const copied = await db.prisma.message.count({ where: { spaceId: copyId } })
    if (copied !== messages) throw new Error(`The copy has ${copied} of ${messages} messages.`)
  }
  await parley.close()
  return times
}

export const forking: Benchmark = {
  question: `How long does the copy of a space with ${MESSAGES.toLocaleString('en')} messages take?`,
  async run({ quick }) {
    const figures: Figure[] = []
    for (const stack of STACKS) {
      const times = await timesOf(stack, quick ? QUICK_MESSAGES : MESSAGES)
      figures.push(
        {
          what: `${stack}, median of ${FORKS}`,
          value: percentile(times, 0.5),
          unit: 'ms',
          bound: { atMost: MOST_MS[stack] },
        },
        { what: `${stack}, the slowest`, value: Math.max(...times), unit: 'ms' },
      )
    }
    return figures
  },
}

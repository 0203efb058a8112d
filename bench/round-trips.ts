import { setTimeout } from 'node:timers/promises'
import { startApplication, type TestApplication } from '../test/support/application.ts'
import { steps } from '../test/support/model-server-script.ts'
import { spaceIn, thinkingOn } from '../test/support/thinking.ts'
import type { Benchmark, Figure } from './support/figures.ts'
import { countSent, type Sent } from './support/wire-counter.ts'

/** Each is done so often, and the least counts: what the process does by the clock falls into some of them. */
const TIMES = 9

/** What one thing costs: done by itself until it is over. */
async function leastOf(count: () => Sent, once: (n: number) => Promise<unknown>): Promise<Sent> {
  const all: Sent[] = []
  for (let n = 0; n < TIMES; n++) {
    const before = count()
    await once(n)
    const after = count()
    all.push({
      statements: after.statements - before.statements,
      transactions: after.transactions - before.transactions,
      commands: after.commands - before.commands,
    })
  }
  const least = (key: keyof Sent) => Math.min(...all.map((sent) => sent[key]))
  return { statements: least('statements'), transactions: least('transactions'), commands: least('commands') }
}

function figuresOf(what: string, { statements, transactions, commands }: Sent): Figure[] {
  return [
    { what: `${what}: to PostgreSQL`, value: statements, unit: 'statements' },
    { what: `${what}: of them in transactions of several`, value: transactions, unit: 'transactions' },
    { what: `${what}: to Redis`, value: commands, unit: 'commands' },
  ]
}

/** After a run's end is told, what follows it has so long to come. */
const TRAIL_MS = 100

/** Sends a message and waits, without asking anybody, until the run or cycle that it sets off is over. */
async function runOf(parley: TestApplication, human: Parameters<TestApplication['send']>[0], spaceId: string) {
  const { log } = parley.app.platform
  const { promise: over, resolve } = Promise.withResolvers<void>()
  const { append } = log
  log.append = (topic, event, options) => {
    if (['RunCompleted', 'RunFailed', 'RunCanceled'].includes(event.type)) resolve()
    return append.call(log, topic, event, options)
  }
  await parley.send(human, spaceId, 'Go')
  await over
  await setTimeout(TRAIL_MS)
  log.append = append
}

async function runs(parley: TestApplication, count: () => Sent): Promise<Figure[]> {
  const { human, space } = await parley.room('Ada', {})
  parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Hello.' } }], [{ text: 'Done.' }]))
  const two = await leastOf(count, () => runOf(parley, human, space.id))
  const memory = (n: number) => ({
    toolCall: 'set_memories',
    input: { memories: [{ key: `k${n}`, value: 'v' }] },
  })
  parley.models.script(
    steps(
      [memory(1)],
      [{ toolCall: 'read_messages', input: {} }],
      [memory(2)],
      [{ toolCall: 'get_my_runs', input: {} }],
      [{ toolCall: 'send_message', input: { text: 'Hello.' } }],
      [{ text: 'Done.' }],
    ),
  )
  const six = await leastOf(count, () => runOf(parley, human, space.id))
  return [...figuresOf('a run of two steps with one message', two), ...figuresOf('a run of six steps with tools', six)]
}

async function sends(parley: TestApplication, count: () => Sent): Promise<Figure[]> {
  const { human, space } = await parley.room('Ada', {})
  const message = (n: number) => ({ spaceId: space.id, text: 'Go', idempotencyKey: `key ${n}` })
  const first = await leastOf(count, (n) => parley.app.api.sending.send(human, message(n)))
  const repeated = await leastOf(count, (n) => parley.app.api.sending.send(human, message(n)))
  return [
    ...figuresOf('a `sendMessage` that wakes one agent', first),
    ...figuresOf('a repeat that is refused', repeated),
  ]
}

async function cycles(parley: TestApplication, count: () => Sent): Promise<Figure[]> {
  const thinking = thinkingOn(parley)
  const human = await parley.human('Ada')
  const agent = await thinking.bot('Bea', {}, {})
  const space = await parley.space(human, [agent.id])
  const cycle = () => runOf(parley, human, space.id)
  parley.models.script((request) =>
    steps(
      [
        { toolCall: 'enter_space', input: { spaceId: spaceIn(request) } },
        { toolCall: 'send_message', input: { text: 'Hello.' } },
      ],
      [{ text: 'Done.' }],
    )(request),
  )
  const answered = await leastOf(count, cycle)
  parley.models.script(() => [{ toolCall: 'skip', input: {} }])
  const skipped = await leastOf(count, cycle)
  return [...figuresOf('a think cycle of two steps with one message', answered), ...figuresOf('a skip', skipped)]
}

export const roundTrips: Benchmark = {
  question:
    'How often does the server ask PostgreSQL and Redis? Counted at the drivers, the message that began it included.',
  async run() {
    const count = countSent()
    const parley = await startApplication({ stack: 'postgres' })
    const idle = await startApplication({ stack: 'postgres', worker: false })
    const figures = [...(await sends(idle, count)), ...(await runs(parley, count)), ...(await cycles(parley, count))]
    await idle.close()
    await parley.close()
    return figures
  },
}

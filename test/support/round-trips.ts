import { setTimeout } from 'node:timers/promises'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startApplication, type TestApplication } from './application.ts'
import { steps } from './model-server-script.ts'
import { spaceIn, thinkingOn } from './thinking.ts'
import { countSent, type Sent } from './wire-counter.ts'

/** The cost of one operation, from its first message to its last consequence. */
export interface Cost extends Sent {
  what: string
}

/**
 * The counted operations, each executed alone to its end. They are counted at the drivers, so the bounds do not depend on the
 * load of the machine. The statements are those that `sent` counts, including Redis commands.
 */
export const BOUNDS: Record<string, Pick<Sent, 'statements' | 'commands'>> = {
  'a `sendMessage` that wakes one agent': { statements: 1, commands: 1 },
  'a repeat that is refused': { statements: 4, commands: 0 },
  'a run of two steps with one message': { statements: 8, commands: 10 },
  'a run of six steps with tools': { statements: 38, commands: 16 },
  'a think cycle of two steps with one message': { statements: 43, commands: 16 },
  'a skip': { statements: 38, commands: 11 },
}

/**
 * Each operation runs several times, and the lowest count is used, because periodic work of the process coincides with some of
 * the runs.
 */
const TIMES = 4
/** How long to wait for the consequences after the end of a run is published. */
const TRAIL_MS = 50

/** Batches wait as long as a run takes, so that the speed of the machine does not matter. */
const SETTINGS = { PARLEY_DELTA_MS: '1000' }

/** Runs each operation of `BOUNDS` on PostgreSQL and Redis and counts its round trips. */
export async function countRoundTrips(): Promise<Cost[]> {
  const counter = countSent()
  try {
    const parley = await startApplication({ stack: 'postgres', settings: SETTINGS })
    const idle = await startApplication({ stack: 'postgres', settings: SETTINGS, worker: false })
    const measure = measureWith(counter.sent)
    const costs = [
      ...(await sends(idle, measure)),
      ...(await runs(parley, measure)),
      ...(await cycles(parley, measure)),
    ]
    await idle.close()
    await parley.close()
    return costs
  } finally {
    counter.stop()
  }
}

type Measure = (what: string, once: (n: number) => Promise<unknown>) => Promise<Cost>

function measureWith(sent: () => Sent): Measure {
  return async (what, once) => {
    const all: Sent[] = []
    let before = sent()
    for (let n = 0; n < TIMES; n++) {
      await once(n)
      const after = sent()
      all.push({
        statements: after.statements - before.statements,
        transactions: after.transactions - before.transactions,
        commands: after.commands - before.commands,
      })
      // Consequences later than \`TRAIL_MS\` count towards the next operation.
      before = after
    }
    const least = (key: keyof Sent) => Math.min(...all.map((one) => one[key]))
    return { what, statements: least('statements'), transactions: least('transactions'), commands: least('commands') }
  }
}

/** Sends a message, and waits without a query until the run or cycle that the message triggers has ended. */
async function runOf(parley: TestApplication, human: HumanViewer, spaceId: string) {
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

async function runs(parley: TestApplication, measure: Measure): Promise<Cost[]> {
  // The closing text of such an agent is posted only if the run has posted no message.
  const { human, space } = await parley.room('Ada', { plainText: 'SPOKEN_IF_SILENT' })
  const run = () => runOf(parley, human, space.id)
  parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Hello.' } }], [{ text: 'Done.' }]))
  const two = await measure('a run of two steps with one message', run)
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
  return [two, await measure('a run of six steps with tools', run)]
}

async function sends(parley: TestApplication, measure: Measure): Promise<Cost[]> {
  const { human, space } = await parley.room('Ada', {})
  const message = (n: number) => ({ spaceId: space.id, text: 'Go', idempotencyKey: `key ${n}` })
  const send = (n: number) => parley.app.domain.sending.send(human, message(n))
  return [await measure('a `sendMessage` that wakes one agent', send), await measure('a repeat that is refused', send)]
}

async function cycles(parley: TestApplication, measure: Measure): Promise<Cost[]> {
  const human = await parley.human('Ada')
  const agent = await thinkingOn(parley).bot('Bea', {}, {})
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
  const answered = await measure('a think cycle of two steps with one message', cycle)
  parley.models.script(() => [{ toolCall: 'skip', input: {} }])
  return [answered, await measure('a skip', cycle)]
}

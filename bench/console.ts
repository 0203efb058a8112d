import { setTimeout as pause } from 'node:timers/promises'
import { openDatabase } from '../src/platform/db.ts'
import { launchBrowser } from '../test/support/browser.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { idOfWritten, writeMessages } from './support/many-messages.ts'
import { modelName, now, startModel } from './support/model.ts'
import { type Noted, type ObservedPage, observePage } from './support/observed-page.ts'
import { proseOf } from './support/prose.ts'
import { createRoom, type Room, startStack } from './support/stack.ts'
import { say } from './support/watch.ts'

const MINUTES = Number(process.env['CONSOLE_MINUTES'] ?? 2)
const QUICK_MINUTES = 0.5
const MESSAGES = 50_000
const FEW_MESSAGES = 5_000
const AGENTS = 20
const TOKENS_A_SECOND = 50
const TOKENS = 20 * TOKENS_A_SECOND
const MODEL = modelName(TOKENS, 1000 / TOKENS_A_SECOND, 'prose')
/** Messages of agents wake no other agents, so each agent posts once for each message of the person. */
const ALONE = { PARLEY_MAX_ROOT_RUNS: String(AGENTS) }

const OPENINGS = 10
const WHEEL = { times: 300, pixels: 800, everyMs: 40 }
const LEAPS = 100
/** The measurement starts after this time, because starting the runs takes most of the CPU at first (see first-delta). */
const BEGINNING_MS = 2_000
const WATCHED_MS = 15_000
const KEY_EVERY_MS = 70
/** After these rounds, the page holds its maximum of messages, and the browser has compiled most of the code. */
const ROUNDS_TO_SETTLE = 3
const MOST_GROWTH = 1.1
const TYPED = 'It will be cold tonight, who brings the fleece? '

const HOW = `Chromium without a GPU, its window 1280 by 800, on the same machine as the server, its PostgreSQL and Redis and the model.
The messages are Markdown of seeded random words. The page records its own frames, its tasks over 50 ms (PerformanceObserver), and for each key the
time from the event to the first task after the frame in which it was handled. The heap is read after a collection, without the page's records;
the page shows the end, where it keeps 50 to 75 messages: it has them after three rounds, and the last round is compared with the third.
\`CONSOLE_MINUTES\` sets the duration of the memory measurement.`

export const consolePage: Benchmark = {
  question: `Is the console quick in a browser: at its start, in a space of ${MESSAGES.toLocaleString('en')} messages, and while ${AGENTS} agents write ${TOKENS_A_SECOND} tokens a second each?`,
  mostMinutes: MINUTES + 10,
  async run({ quick }) {
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model, ALONE)
    const room = await createRoom(stack, MODEL, AGENTS)
    const messages = quick ? FEW_MESSAGES : MESSAGES
    await fill(stack.databaseUrl ?? '', room, messages)
    const browser = await launchBrowser()
    const observed = await observePage(browser, stack.parley.origin, room.token)
    const figures = [
      ...(await measureOpening(observed, room)),
      ...(await measureScrolling(observed, room, messages)),
      ...(await measureStreams(observed, room)),
    ]
    await model.generations()
    const heaps = await measureMemory(observed, room, quick ? Math.min(QUICK_MINUTES, MINUTES) : MINUTES)
    const written = (await model.generations()).flatMap(({ n }) => proseOf(n, TOKENS)).join('').length
    await browser.close()
    await room.human.close()
    await stack.stop()
    await model.stop()
    return {
      tables: HOW,
      figures: [
        ...figures,
        ...heaps,
        { what: 'text that arrived in the meantime', value: written / 2 ** 20, unit: 'MiB' },
      ],
    }
  },
}

/** Messages of different lengths, posted by the agents in turn. */
async function fill(databaseUrl: string, { spaceId, agentIds }: Room, messages: number): Promise<void> {
  const db = await openDatabase({ url: databaseUrl, dataDirectory: '', poolSize: 1 })
  const texts = Array.from({ length: 61 }, (_, n) => proseOf(n, 5 + ((n * 37) % 150)).join(''))
  await writeMessages(db, { spaceId, senderIds: agentIds, texts, from: 0, to: messages })
  await db.close()
}

/** Opens a space repeatedly, with and without the browser's cache. */
async function measureOpening(observed: ObservedPage, { spaceId }: Room): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const isCaching of [false, true]) {
    await observed.setCaching(isCaching)
    const times: number[] = []
    while (times.length < OPENINGS) times.push(await observed.open(`/spaces/${spaceId}`))
    const what = `from the navigation until a message shows and one can write, ${isCaching ? 'opened before' : 'nothing kept'}`
    figures.push(
      { what: `${what}, median`, value: percentile(times, 0.5), unit: 'ms', bound: { atMost: 1000 } },
      { what: `${what}, longest of ${OPENINGS}`, value: Math.max(...times), unit: 'ms' },
    )
  }
  return figures
}

/** Measures scrolling upwards from the newest message: while pages load, and with all messages loaded, by wheel and by jumps. */
async function measureScrolling(observed: ObservedPage, { spaceId }: Room, messages: number): Promise<Figure[]> {
  await observed.open(`/spaces/${spaceId}`)
  await observed.begin()
  await wheel(observed, -WHEEL.pixels)
  const back = await observed.noted()
  const startedAt = now()
  await observed.open(`/spaces/${spaceId}#${idOfWritten(1)}`)
  await observed.page.locator(`article[id="${idOfWritten(1)}"]`).waitFor({ timeout: 300_000 })
  const seconds = (now() - startedAt) / 1000
  const loading = await observed.noted()
  await observed.begin()
  await wheel(observed, WHEEL.pixels)
  const whole = await observed.noted()
  await observed.begin()
  await leap(observed)
  const leaps = await observed.noted()
  const all = messages.toLocaleString('en')
  return [
    ...tasks('back from the newest message by the wheel, pages coming in', back),
    ...tasks(`by the wheel, all ${all} there`, whole),
    ...tasks(`leaps all over, all ${all} there`, leaps),
    { what: `to load all ${all} and show the first`, value: seconds, unit: 's' },
    {
      what: 'in the meantime, longest task (0: none over 50 ms)',
      value: Math.max(0, ...loading.longTasks),
      unit: 'ms',
    },
  ]
}

function tasks(what: string, { longTasks, frames }: Noted): Figure[] {
  return [
    {
      what: `${what}: longest task (0: none over 50 ms)`,
      value: Math.max(0, ...longTasks),
      unit: 'ms',
      bound: { atMost: 50 },
    },
    { what: `${what}: tasks over 50 ms`, value: longTasks.length, unit: '' },
    { what: `${what}: frames a second`, value: rateOf(frames), unit: '/s' },
  ]
}

async function wheel({ page }: ObservedPage, pixels: number): Promise<void> {
  await page.mouse.move(640, 400)
  for (let n = 0; n < WHEEL.times; n++) {
    await page.mouse.wheel(0, pixels)
    await pause(WHEEL.everyMs)
  }
}

/** Jumps to evenly distributed positions, each far from the previous one. */
async function leap({ page }: ObservedPage): Promise<void> {
  for (let n = 0; n < LEAPS; n++) {
    const share = (n * 0.618) % 1
    await page.evaluate(
      `{ const box = document.querySelector('.timeline'); box.scrollTop = ${share} * box.scrollHeight }`,
    )
    await pause(WHEEL.everyMs)
  }
}

/** Measures frames and key presses while no agent posts, and then while all agents post. */
async function measureStreams(observed: ObservedPage, room: Room): Promise<Figure[]> {
  await observed.open(`/spaces/${room.spaceId}`)
  const idle = await typeFor(observed, WATCHED_MS / 3)
  await say(room)
  await observed.page.locator('.message[data-status="STREAMING"]').first().waitFor()
  const beginning = await typeFor(observed, BEGINNING_MS)
  const busy = await typeFor(observed, WATCHED_MS)
  await untilAtRest(observed)
  const meanwhile = `while ${AGENTS} agents write`
  return [
    { what: `frames a second ${meanwhile}`, value: rateOf(busy.frames), unit: '/s', bound: { atLeast: 55 } },
    { what: 'the same while none does', value: rateOf(idle.frames), unit: '/s' },
    { what: `longest time between two frames ${meanwhile}`, value: longestGapOf(busy.frames), unit: 'ms' },
    { what: `tasks over 50 ms ${meanwhile}`, value: busy.longTasks.length, unit: '' },
    {
      what: `from a key to its frame ${meanwhile}, p99 of ${busy.keys.length}`,
      value: percentile(busy.keys, 0.99),
      unit: 'ms',
      bound: { atMost: 50 },
    },
    { what: 'the same, p50', value: percentile(busy.keys, 0.5), unit: 'ms' },
    { what: 'the same in the 2 s in which they begin, longest', value: Math.max(...beginning.keys), unit: 'ms' },
    { what: `the same while none does, p99 of ${idle.keys.length}`, value: percentile(idle.keys, 0.99), unit: 'ms' },
  ]
}

async function typeFor(observed: ObservedPage, ms: number): Promise<Noted> {
  const { page } = observed
  await page.getByRole('textbox', { name: 'Message' }).fill('')
  await observed.begin()
  const until = now() + ms
  for (let n = 0; now() < until; n++) {
    await page.keyboard.press(TYPED[n % TYPED.length] ?? ' ')
    await pause(KEY_EVERY_MS)
  }
  return observed.noted()
}

/** Waits until the page no longer shows activity, which it does only while an agent works. */
async function untilAtRest({ page }: ObservedPage): Promise<void> {
  await page.locator('.activity').waitFor({ state: 'hidden', timeout: 120_000 })
}

/** Measures the heap after each round of streams, without the records that the page keeps of its frames. */
async function measureMemory(observed: ObservedPage, room: Room, minutes: number): Promise<Figure[]> {
  await observed.open(`/spaces/${room.spaceId}`)
  const samples: number[] = []
  for (const until = now() + minutes * 60_000; now() < until || samples.length < ROUNDS_TO_SETTLE + 2; ) {
    await say(room)
    await observed.page.locator('.activity').waitFor({ state: 'visible' })
    await untilAtRest(observed)
    await observed.begin()
    samples.push(await observed.heapMebibytes())
  }
  const [first = 0, settled = 0, last = 0] = [samples[0], samples[ROUNDS_TO_SETTLE - 1], samples.at(-1)]
  const what = `heap after ${minutes} minutes of streams (${samples.length} rounds)`
  return [
    { what: 'heap after the first round of streams', value: first, unit: 'MiB' },
    { what: `heap after ${ROUNDS_TO_SETTLE} rounds of streams`, value: settled, unit: 'MiB' },
    { what, value: last, unit: 'MiB', bound: { atMost: Math.round(settled * MOST_GROWTH * 100) / 100 } },
  ]
}

const rateOf = (frames: number[]) => ((frames.length - 1) * 1000) / ((frames.at(-1) ?? 0) - (frames[0] ?? 0))

const longestGapOf = (frames: number[]) => Math.max(...frames.slice(1).map((at, n) => at - (frames[n] ?? at)))

import { collectGarbageOf } from '../collected-heap.ts'
import { freePort } from '../free-port.ts'
import { type Answer, createParleyClient } from '../parley-client.ts'
import { type ParleyProcess, startParley } from '../parley-process.ts'
import { createTestDatabase } from '../postgres.ts'
import { startThrowawayRedis } from '../throwaway-redis.ts'
import { startChild } from './child.ts'
import { checkConsole } from './console-check.ts'
import { type Follower, follow } from './follower.ts'
import { createHonestMember, HONEST_OPERATIONS, type Measured } from './honest-member.ts'
import type { WireReport } from './wire.ts'
import { type AttackWorld, createAttackWorld } from './world.ts'

/** The heap limit of the server, in MiB. */
const HEAP_MIB = 1024
/**
 * The goal for the honest member's p50, as a multiple of the p50 without attack. It is reported, and not met yet: the p50 is 8
 * to 19 times higher on two cores that also run the attackers, the models, the databases and a browser.
 */
const GOAL_TIMES = 5
/** If an operation has enough measurements, a p50 above both this and the goal is also a finding. */
const MOST_P50_MS = 3000
const MEASURED_OFTEN = 10
const HEAP_GROWS_AT_MOST_MIB = 50
/** How long after the attack every message must be delivered. */
const CALM_MS = 60_000
/** How long the heap may take to shrink, because the agents first finish their pending work. */
const HEAP_CALM_MS = 180_000
const CONSOLE_CHECKS = 3
const MEBIBYTE = 1024 * 1024
/** Log lines of level 50 and above that an attack may cause, each with the reason. */
const EXPECTED_ERRORS: readonly { pattern: RegExp; reason: string }[] = []

export interface AttackOptions {
  stack: 'embedded' | 'postgres'
  seed: number
  /** How long the hostile members work. */
  seconds: number
  idleSeconds: number
  /**
   * A higher slowdown than this, across all operations, is a finding. Before requesters shared the time of the database,
   * operations took 30 to 40 times as long, and longer on a slower machine.
   */
  mostTimes: number
  /** Whether Chromium is available for checks of the console. */
  hasBrowser: boolean
  /** Restricts the grammar to these actions, to find the one that causes a finding. */
  only?: string[]
}

export interface AttackResult {
  /** The findings, each with its known cause; empty if the server withstood the attack. */
  findings: string[]
  /** Lines for the log: metrics of the honest member, and the actions of the hostile ones. */
  report: string
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Runs hostile members against an honest one on a separate server, with the default rates and a limited heap. */
export async function attackAtRandom(options: AttackOptions): Promise<AttackResult> {
  const models = startChild('models-process.ts', [String(options.seed)])
  const { baseUrl } = await models.message<{ baseUrl: string }>()
  const stores = await openStores(options.stack)
  const inspectorPort = await freePort()
  const profile = process.env['ATTACK_PROFILE']
  const profiling = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  const parley = await startParley({
    command: [
      ...profiling,
      `--max-old-space-size=${HEAP_MIB}`,
      `--inspect-port=127.0.0.1:${inspectorPort}`,
      'src/main.ts',
    ],
    settings: { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: baseUrl, PARLEY_LOG_LEVEL: 'error', ...stores.settings },
  })
  try {
    return await attackServer(parley, inspectorPort, options)
  } finally {
    // Node writes a profile only when it exits regularly.
    await (profile === undefined ? parley.kill() : parley.stop())
    await models.stop()
    await stores.close()
  }
}

async function openStores(stack: AttackOptions['stack']) {
  if (stack === 'embedded') return { settings: {}, close: async () => {} }
  const [database, redis] = await Promise.all([createTestDatabase(), startThrowawayRedis()])
  const settings: Record<string, string> = { DATABASE_URL: database.url, REDIS_URL: redis.url }
  return {
    settings,
    close: async () => {
      await redis.dispose()
      await database.drop()
    },
  }
}

async function attackServer(
  parley: ParleyProcess,
  inspectorPort: number,
  options: AttackOptions,
): Promise<AttackResult> {
  const findings: string[] = []
  const world = await createAttackWorld(parley.origin, parley.adminToken)
  const control = startChild('control-process.ts')
  const honest = createHonestMember(world, (await control.message<{ port: number }>()).port)
  const followers = {
    hall: await follow(world.origin, world.honest.token, world.spaces.hall),
    quiet: await follow(world.origin, world.honest.token, world.spaces.quiet),
  }
  const heap = async () => (await collectGarbageOf(parley.pid, inspectorPort)) / MEBIBYTE

  // Compiles the code of the operations, so that the times without attack are representative.
  await honest.work(options.idleSeconds / 2)
  const idle = await honest.work(options.idleSeconds)
  const heapBefore = await heap()

  const gone = parley.exited.then(({ code, signal }) => `the process ended with ${signal ?? code}`)
  const attackers = startChild('attackers-process.ts', [JSON.stringify({ world, ...options })])
  const [attacked, report, consoleFindings] = await Promise.all([
    honest.work(options.seconds),
    Promise.race([attackers.message<WireReport>(), gone]).catch((error) => String(error)),
    checkConsoleMeanwhile(world, options),
  ])
  await attackers.stop()
  findings.push(...consoleFindings)
  if (typeof report === 'string') findings.push(report)
  else findings.push(...report.findings)
  findings.push(...idle.refused.map((text) => `before the attack: ${text}`), ...attacked.refused)
  findings.push(...errorLinesOf(parley))

  let heapAfter = Number.NaN
  if (await isServing(parley)) {
    for (const [name, follower] of Object.entries(followers)) {
      findings.push(...(await missedBy(world, name as keyof typeof followers, follower)))
    }
    heapAfter = await heapAfterCalm(heap, heapBefore + HEAP_GROWS_AT_MOST_MIB)
    if (!(heapAfter - heapBefore <= HEAP_GROWS_AT_MOST_MIB)) {
      findings.push(`the heap grew from ${heapBefore.toFixed(0)} to ${heapAfter.toFixed(0)} MiB`)
    }
    if (options.hasBrowser) {
      const shown = await checkConsole(world, `hippopotamus ${options.seed}`)
      findings.push(...shown.map((fault) => `the console after the attack: ${fault}`))
    }
  } else findings.push(`the server does not answer after the attack:\n${parley.output().slice(-2000)}`)
  findings.push(...tooSlow(idle, attacked, options.mostTimes))
  for (const follower of Object.values(followers)) follower.stop()
  await Promise.race([honest.close(), sleep(5000)])
  await control.stop()
  return {
    findings: findings.map(short),
    report: reportOf({ idle, attacked, report, followers, heapBefore, heapAfter }),
  }
}

const short = (text: string) => (text.length > 3000 ? `${text.slice(0, 3000)}…` : text)

/** Checks a few times during the attack that the shared space renders. */
async function checkConsoleMeanwhile(world: AttackWorld, { hasBrowser, seconds }: AttackOptions): Promise<string[]> {
  if (!hasBrowser) return []
  const findings: string[] = []
  for (let n = 1; n <= CONSOLE_CHECKS; n++) {
    const startedAt = performance.now()
    const faults = await checkConsole(world, null)
    findings.push(...faults.map((fault) => `the console during the attack, check ${n}: ${fault}`))
    await sleep(Math.max(0, (seconds * 1000) / (CONSOLE_CHECKS + 1) - (performance.now() - startedAt)))
  }
  return findings
}

async function isServing({ origin }: ParleyProcess): Promise<boolean> {
  for (const until = Date.now() + CALM_MS; Date.now() < until; await sleep(200)) {
    const ready = await fetch(`${origin}/health/ready`).catch(() => null)
    if (ready?.ok) return true
  }
  return false
}

/** Returns log lines of level error and above, and what Node prints before it exits. */
function errorLinesOf(parley: ParleyProcess): string[] {
  const lines = parley.output().split('\n')
  const bad = lines.filter((line) => /"level":[56]0|FATAL ERROR|unhandled|uncaught|MaxListeners/i.test(line))
  const unexpected = bad.filter((line) => !EXPECTED_ERRORS.some(({ pattern }) => pattern.test(line)))
  const kinds = new Map(unexpected.map((line) => [/"msg":"([^"]*)"/.exec(line)?.[1] ?? line.slice(0, 80), line]))
  return [...kinds.values()].map((line) => `the log says: ${line.slice(0, 1500)}`)
}

/** Returns the messages of a space that its follower did not receive, or received more than once. */
async function missedBy(world: AttackWorld, space: 'hall' | 'quiet', follower: Follower): Promise<string[]> {
  const posted = await messagesOf(world, world.spaces[space])
  const last = posted.at(-1)?.seq ?? 0
  for (const until = Date.now() + CALM_MS; follower.seq() < last && Date.now() < until; ) await sleep(50)
  const caughtUp = Math.max(0, ...follower.resumedAt)
  const missed = posted.filter(({ id, seq }) => seq > caughtUp && !follower.posted.has(id))
  const repeated = [...follower.posted].filter(([, times]) => times > 1)
  return [
    ...follower.faults.slice(0, 5).map((fault) => `the subscription to ${space}: ${fault}`),
    ...(missed.length > 0
      ? [
          `the subscription to ${space} missed ${missed.length} of ${posted.length} messages, the first with seq ${missed[0]?.seq}`,
        ]
      : []),
    ...(repeated.length > 0
      ? [`the subscription to ${space} delivered ${repeated.length} messages more than once`]
      : []),
  ]
}

interface Page {
  space: {
    messages: {
      edges: { node: { id: string; seq: number } }[]
      pageInfo: { hasNextPage: boolean; endCursor: string | null }
    }
  }
}

/** Returns every message of a space, as the admin reads them. */
async function messagesOf({ origin, adminToken }: AttackWorld, id: string): Promise<{ id: string; seq: number }[]> {
  const query = `query ($id: ID!, $after: String) { space(id: $id) { messages(first: 100, after: $after) {
    edges { node { id seq } } pageInfo { hasNextPage endCursor } } } }`
  const admin = createParleyClient({ origin, token: adminToken })
  const all: { id: string; seq: number }[] = []
  for (let after: string | null = null; ; ) {
    const answer: Answer<Page> = await admin.ask<Page>(query, { id, after })
    if (answer.data == null) throw new Error(`the messages cannot be read: ${JSON.stringify(answer)}`)
    const { edges, pageInfo } = answer.data.space.messages
    all.push(...edges.map(({ node }) => node))
    if (!pageInfo.hasNextPage) return all
    after = pageInfo.endCursor
  }
}

/** Returns the used heap once it is small enough, or when the time for that is over. */
async function heapAfterCalm(heap: () => Promise<number>, enough: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (const until = Date.now() + HEAP_CALM_MS; Date.now() < until; await sleep(3000)) {
    least = Math.min(least, await heap())
    if (least <= enough) break
  }
  return least
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** Returns the slowdown of each operation of the honest member, by the medians. */
function slowerBy(idle: Measured, attacked: Measured) {
  return HONEST_OPERATIONS.map((name) => {
    const [before, during] = [median(idle.took[name]), median(attacked.took[name])]
    return { name, before, during, times: during / before, count: attacked.took[name].length }
  })
}

/** Returns the slowdown over all operations of the honest member, each compared with the median of its kind without attack. */
function overallTimes(idle: Measured, attacked: Measured): number {
  return median(HONEST_OPERATIONS.flatMap((name) => attacked.took[name].map((took) => took / median(idle.took[name]))))
}

function tooSlow(idle: Measured, attacked: Measured, mostTimes: number): string[] {
  const overall = overallTimes(idle, attacked)
  const operations = slowerBy(idle, attacked)
    .filter(({ times, during, count }) => times > GOAL_TIMES && during > MOST_P50_MS && count >= MEASURED_OFTEN)
    .map(
      ({ name, before, during }) =>
        `the honest member waits too long: "${name}" ${before.toFixed(1)} → ${during.toFixed(1)} ms (p50)`,
    )
  if (!(overall > mostTimes)) return operations
  return [`the honest member waits too long: × ${overall.toFixed(1)} over all operations`, ...operations]
}

/** Returns the slowdown of the machine itself. */
const controlTimes = (idle: Measured, attacked: Measured) => median(attacked.control) / median(idle.control)

interface Reported {
  idle: Measured
  attacked: Measured
  report: WireReport | string
  followers: Record<string, Follower>
  heapBefore: number
  heapAfter: number
}

function reportOf({ idle, attacked, report, followers, heapBefore, heapAfter }: Reported): string {
  const operations = slowerBy(idle, attacked).map(
    ({ name, before, during, times, count }) =>
      `  ${name}: p50 ${before.toFixed(1)} → ${during.toFixed(1)} ms (× ${times.toFixed(1)}, ${count} times, slowest ${Math.max(...attacked.took[name]).toFixed(0)} ms)`,
  )
  const followed = Object.entries(followers).map(
    ([name, { posted, resumptions }]) => `  ${name}: ${posted.size} messages delivered, ${resumptions()} resumptions`,
  )
  const counts = typeof report === 'string' ? [report] : Object.entries(report.counts).sort()
  return [
    `The honest member, all operations: × ${overallTimes(idle, attacked).toFixed(1)} (goal: × ${GOAL_TIMES})`,
    `  a bare HTTP server beside it: × ${controlTimes(idle, attacked).toFixed(1)}`,
    ...operations,
    ...followed,
    `Heap: ${heapBefore.toFixed(0)} → ${heapAfter.toFixed(0)} MiB`,
    `The hostile members, largest response ${typeof report === 'string' ? '?' : (report.largestResponse / MEBIBYTE).toFixed(1)} MiB:`,
    ...counts.map((one) => `  ${typeof one === 'string' ? one : one.join(' × ')}`),
  ].join('\n')
}

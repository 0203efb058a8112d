import { describe, expect, test } from 'vitest'
import { runTopic } from '../../src/broker/topics.ts'
import type { Run } from '../../src/generated/prisma/client.ts'
import type { TestApplication } from './application.ts'
import { anonymous } from './broken-run-remains.ts'
import { openTheatre, type Performance, PLAYS, type Play, stepsOf, type Theatre } from './broken-runs.ts'
import { PASSES, type Statement } from './frail.ts'
import type { ModelRequest } from './model-server-script.ts'
import { hasPostgres } from './postgres.ts'
import { until } from './until.ts'

/** How long a model may still be called after a stop. On an idle machine, this takes a few milliseconds. */
const LET_GO_WITHIN = { timeoutMs: 5000 }

/** Permanent errors of PostgreSQL: a number out of range, a bad byte, a duplicate, an unknown column. */
const REFUSALS = ['22003', '22021', '23505', '42703']
/** Longer than three attempts with pauses of 1 s and 2 s take. */
const GIVEN_UP_WITHIN = { timeoutMs: 12_000 }
/**
 * How often a run may send a statement that is refused each time. The claim statement is also sent a second after a refusal,
 * and on each wake-up signal, which is published once a second while a run is due.
 */
const MOST_TRIES = 8
const LOOKS_A_SECOND = 2

export interface BrokenRuns {
  /** Chooses among the statements of an uninterrupted run, counted from 1. */
  choose(count: number): number[]
  /** The number of deployments at the same time. */
  stages: number
  timeout: number
}

/** Tests runs that are interrupted at a statement, or one of whose statements the database refuses. */
export function describeBrokenRuns({ choose, stages, timeout }: BrokenRuns): void {
  describe.skipIf(!hasPostgres).each(PLAYS)('a run that writes $name', (play) => {
    async function atEach(act: (theatre: Theatre, n: number, whole: Performance) => Promise<void>): Promise<void> {
      const theatres = await Promise.all(Array.from({ length: stages }, openTheatre))
      try {
        const whole = await unbroken(theatres[0] as Theatre, play)
        const points = choose(whole.frailty.statements.length)
        await Promise.all(
          theatres.map(async (theatre) => {
            for (let n = points.shift(); n !== undefined; n = points.shift()) await act(theatre, n, whole)
          }),
        )
        for (const { parley } of theatres) expect(parley.models.refusals).toEqual([])
      } finally {
        await Promise.all(theatres.map((theatre) => theatre.close()))
      }
    }

    test('ends the same way, whichever statement was the last of its worker', { timeout }, () => atEach(dieAt(play)))

    test('stops and writes nothing after a stop, at whichever statement the stop arrives', { timeout }, () =>
      atEach((theatre, n) => stopAt(theatre, play, n)),
    )

    test('ends even if the database refuses a statement on every attempt, whichever it is', { timeout }, () =>
      atEach((theatre, n, whole) => refuseAt(theatre, play, whole.frailty.statements[n - 1] as Statement)),
    )
  })
}

function dieAt(play: Play) {
  return async ({ begin }: Theatre, n: number, whole: Performance): Promise<void> => {
    const dies = ({ n: at }: Statement) => (at === n ? ({ type: 'dies' } as const) : PASSES)
    const broken = await begin(play, dies, 'decides-there')
    await broken.overOrDead()
    await broken.dismiss()
    if (broken.frailty.isDead()) await broken.takeOver()
    const point = pointOf(broken, n)
    const remains = await broken.remains()
    const { lastSeq } = remains
    expect({ point, ...remains }).toEqual({ point, ...(await whole.remains()), seqs: upTo(lastSeq), lastSeq })
    expectSameRequests(point, broken.requests, whole.requests)
    expect([point, new Set(broken.bookings).size]).toEqual([point, 1])
  }
}

/**
 * If a statement of a run is refused, a tool returns an error or the run fails, after few attempts. Statements that claim and
 * end runs are retried forever, because there is no alternative. Once they succeed, the run continues.
 */
async function refuseAt(theatre: Theatre, play: Play, { n, text }: Statement): Promise<void> {
  if (/^(BEGIN|COMMIT|ROLLBACK)/.test(text)) return
  const code = REFUSALS[n % REFUSALS.length] ?? ''
  const point = `${code} at statement ${n}: ${shortened(text)}`
  let tries = 0
  let isRefused = true
  const refused = await theatre.begin(play, (statement) => {
    if (statement.text !== text || !isRefused) return PASSES
    tries += 1
    return { type: 'fails', code }
  })
  const since = Date.now()
  const isOver = await until('the play has ended', refused.isOver, GIVEN_UP_WITHIN).catch(() => false)
  expect(tries, point).toBeLessThanOrEqual(MOST_TRIES + (LOOKS_A_SECOND * (Date.now() - since)) / 1000)
  isRefused = false
  if (!isOver) await until(`${point}: ended once it is no longer refused`, refused.isOver)
  await refused.dismiss()
  const run = await refused.run()
  expect([point, run?.status]).toSatisfy(([, status]) => status === 'COMPLETED' || status === 'FAILED')
  // A run that has waited for people is claimed once more.
  const mostAttempts = play.asksFirst === true ? 5 : 4
  expect([point, run?.attempt]).toSatisfy(([, attempt]) => attempt <= mostAttempts)
  if (run?.status === 'FAILED') expect([point, run.error]).toEqual([point, expect.stringMatching(/^[A-Z].{10,300}\.$/)])
  await refused.forget()
}

/**
 * Stops the run while the response to the n-th statement is in flight. If a transaction is open, the stop runs at the same
 * time.
 */
async function stopAt({ parley, begin }: Theatre, play: Play, n: number): Promise<void> {
  const begun = Promise.withResolvers<Performance>()
  const stopping = begun.promise.then(async (performance) => {
    const run = await performance.run()
    if (run === null || run.finishedAt !== null) return null
    const { control } = parley.app.domain
    const stopped = await control.stopRun(parley.admin, { runId: run.id, cascade: false }).catch(unlessOver)
    return stopped?.run ?? null
  })
  const performance = await begin(play, (statement) => {
    if (statement.n !== n) return PASSES
    return statement.isInTransaction ? PASSES : { type: 'held', until: stopping }
  })
  await until('the statement is reached, or the run has ended', async () => {
    const isReached = performance.frailty.statements.length >= n
    return isReached || (await performance.isOver())
  })
  begun.resolve(performance)
  const run = await stopping
  const point = pointOf(performance, n)
  if (run !== null) {
    const before = await stateOf(parley, run)
    expect([point, before.run?.status]).toEqual([point, 'CANCELED'])
    await until(`${point}: all model requests have ended`, () => performance.openRequests() === 0, LET_GO_WITHIN)
    await performance.dismiss()
    expect({ point, ...(await stateOf(parley, run)) }).toEqual({ point, ...before })
  } else await performance.dismiss()
  await performance.forget()
}

const unlessOver = (error: { code?: string }) => (error.code === 'CONFLICT' ? null : Promise.reject(error))

/** The usage of an unfinished generation, and the rows that count it, are written after the end of the run. */
const USED = {
  inputTokens: true,
  cachedInputTokens: true,
  outputTokens: true,
  usageEstimated: true,
  costNanos: true,
  usageDay: true,
  usageSpaceId: true,
  usageModel: true,
} as const

/** Returns all data of a run except its usage. */
async function stateOf({ app }: TestApplication, { id }: Run) {
  const { prisma } = app.platform.db
  const [run, messages, calls, steps, heads] = await Promise.all([
    prisma.run.findUnique({ where: { id }, omit: USED }),
    prisma.message.findMany({ where: { runId: id }, orderBy: { id: 'asc' } }),
    prisma.toolCall.findMany({ where: { runId: id }, orderBy: { id: 'asc' } }),
    prisma.step.findMany({ where: { runId: id }, orderBy: { id: 'asc' } }),
    app.platform.log.heads([runTopic(id)]),
  ])
  return { run, messages, calls, steps, heads }
}

async function unbroken(theatre: Theatre, play: Play): Promise<Performance> {
  const whole = await theatre.begin(play, () => PASSES, 'decides-there')
  await whole.overOrDead()
  await whole.dismiss()
  expect(whole.requests.map(({ step }) => step)).toEqual(stepsOf(play))
  return whole
}

const shortened = (text = '') => text.replace(/\s+/g, ' ').trim().slice(0, 200)

const pointOf = ({ frailty }: Performance, n: number) =>
  `at statement ${n}: ${shortened(frailty.statements[n - 1]?.text)}`

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

/** Expects the same as for an uninterrupted run, except that one generation was requested twice. */
function expectSameRequests(point: string, requests: ModelRequest[], whole: ModelRequest[]): void {
  const asked = requests.filter(({ step }, index) => requests[index + 1]?.step !== step)
  expect([point, shown(asked)]).toEqual([point, shown(whole)])
  expect(requests.length - asked.length, point).toBeLessThanOrEqual(1)
}

/** Compares the requests character by character. */
const shown = (requests: ModelRequest[]) => anonymous(requests.map(({ messages }) => messages))

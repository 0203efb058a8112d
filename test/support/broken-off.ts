import { describe, expect, test } from 'vitest'
import type { Run } from '../../src/generated/prisma/client.ts'
import { runTopic } from '../../src/realtime/topics.ts'
import type { TestApplication } from './application.ts'
import { anonymous } from './broken-run-remains.ts'
import { openTheatre, type Performance, PLAYS, type Play, stepsOf, type Theatre } from './broken-runs.ts'
import { PASSES, type Statement } from './frail.ts'
import type { ModelRequest } from './model-server-script.ts'
import { hasPostgres } from './postgres.ts'
import { until } from './until.ts'

/** How long a model may still be asked after a stop was answered; on an idle machine it is milliseconds. */
const LET_GO_WITHIN = { timeoutMs: 5000 }

/** What PostgreSQL raises for what it is asked, again each time: a number out of range, a bad byte, a duplicate, an unknown column. */
const REFUSALS = ['22003', '22021', '23505', '42703']
/** More than it takes to try three times with pauses of 1 s and 2 s. */
const GIVEN_UP_WITHIN = { timeoutMs: 12_000 }
/**
 * How often a statement that is refused each time may be sent for a run. What looks for work is sent twice a second besides: a second after
 * it was refused, and when it is rung for, as it is once a second while a run is due.
 */
const MOST_TRIES = 8
const LOOKS_A_SECOND = 2

export interface BrokenRuns {
  /** Which of the statements that an unbroken run sends, from 1. */
  choose(count: number): number[]
  /** On so many deployments at once. */
  stages: number
  timeout: number
}

/** The tests of runs that are broken off, or refused by the database, at a statement. */
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

    test('ends the same whichever statement was the last of its worker', { timeout }, () => atEach(dieAt(play)))

    test('lets go and writes nothing once a stop is answered, at whichever statement that comes', { timeout }, () =>
      atEach((theatre, n) => stopAt(theatre, play, n)),
    )

    test('comes to an end whichever statement the database refuses, each time that it is sent', { timeout }, () =>
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
 * What of a run is refused each time becomes a tool's result or the run's failure, after few tries. What claims runs and ends them is
 * tried again and again: there is nothing else to be done, and when it is no longer refused, the run goes on.
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
  const isOver = await until('over', refused.isOver, GIVEN_UP_WITHIN).catch(() => false)
  expect(tries, point).toBeLessThanOrEqual(MOST_TRIES + (LOOKS_A_SECOND * (Date.now() - since)) / 1000)
  isRefused = false
  if (!isOver) await until(`${point}: over when it is no longer refused`, refused.isOver)
  await refused.dismiss()
  const run = await refused.run()
  expect([point, run?.status]).toSatisfy(([, status]) => status === 'COMPLETED' || status === 'FAILED')
  // Who waited for people is claimed once more.
  const mostAttempts = play.asksFirst === true ? 5 : 4
  expect([point, run?.attempt]).toSatisfy(([, attempt]) => attempt <= mostAttempts)
  if (run?.status === 'FAILED') expect([point, run.error]).toEqual([point, expect.stringMatching(/^[A-Z].{10,300}\.$/)])
  await refused.forget()
}

/** Stopped while the answer of the n-th statement is on its way; where a transaction is open, at the same time. */
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
  await until('the statement is reached, or the run over', async () => {
    const isReached = performance.frailty.statements.length >= n
    return isReached || (await performance.isOver())
  })
  begun.resolve(performance)
  const run = await stopping
  const point = pointOf(performance, n)
  if (run !== null) {
    const before = await stateOf(parley, run)
    expect([point, before.run?.status]).toEqual([point, 'CANCELED'])
    await until(`${point}: no model is asked any more`, () => performance.openRequests() === 0, LET_GO_WITHIN)
    await performance.dismiss()
    expect({ point, ...(await stateOf(parley, run)) }).toEqual({ point, ...before })
  } else await performance.dismiss()
  await performance.forget()
}

const unlessOver = (error: { code?: string }) => (error.code === 'CONFLICT' ? null : Promise.reject(error))

/** What an unfinished generation has cost, and where that is counted, is noted after the end of its run. */
const USED = {
  ...{ inputTokens: true, cachedInputTokens: true, outputTokens: true, usageEstimated: true },
  ...{ costNanos: true, usageDay: true, usageSpaceId: true, usageModel: true },
} as const

/** All that there is of a run, but for what it has used. */
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

/** The same as of a run that was not broken off, but for one generation that was asked for twice. */
function expectSameRequests(point: string, requests: ModelRequest[], whole: ModelRequest[]): void {
  const asked = requests.filter(({ step }, index) => requests[index + 1]?.step !== step)
  expect([point, shown(asked)]).toEqual([point, shown(whole)])
  expect(requests.length - asked.length, point).toBeLessThanOrEqual(1)
}

/** What requests show, letter by letter. */
const shown = (requests: ModelRequest[]) => anonymous(requests.map(({ messages }) => messages))

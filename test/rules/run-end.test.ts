import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Blame,
  type ClaimedEvent,
  type EndFacts,
  type EndingRun,
  planEnd,
  RETRY_MINUTES,
  type RunEnding,
} from '../../src/rules/run-end.ts'

const cycle: EndingRun = {
  id: 'run_1',
  agentId: 'agt_1',
  triggerType: 'INBOX',
  triggerMessageId: null,
  stepCount: 0,
  places: ['spc_2'],
  label: [],
  startedAt: new Date(1000),
  finishedAt: new Date(2000),
}

const event = (id: string, rest: Partial<ClaimedEvent> = {}): ClaimedEvent => ({
  id,
  messageId: `msg_${id}`,
  outages: 0,
  over: null,
  isGone: false,
  ...rest,
})

const facts = (rest: Partial<EndFacts> = {}): EndFacts => ({
  hasPosted: false,
  hasActed: true,
  hasDoneNothing: true,
  failure: null,
  events: [event('a'), event('b')],
  ...rest,
})

const FINISHED: RunEnding = { status: 'COMPLETED', stopReason: 'FINISHED', summary: 'Done.' }
const SKIPPED: RunEnding = { ...FINISHED, stopReason: 'SKIPPED', summary: null, skipped: { reason: 'Not for me.' } }
const FAILED: RunEnding = { status: 'FAILED', stopReason: 'MODEL_FAILED', error: 'It broke off.\nDetails.' }
const OVER: RunEnding = { status: 'FAILED', stopReason: 'OVER_BUDGET', error: 'Spent.' }
const GONE: RunEnding = { status: 'CANCELED', stopReason: 'GONE' }
const STOPPED: RunEnding = { status: 'CANCELED', stopReason: 'STOPPED', stoppedById: null }

const fates = (ending: RunEnding, rest: Partial<EndFacts> = {}) =>
  planEnd(cycle, ending, facts(rest)).events.map(({ fate }) => fate)

describe('the plan for the end of a think cycle', () => {
  test('remembers a completed cycle and finishes its events', () => {
    expect(planEnd(cycle, FINISHED, facts())).toMatchObject({ cycle: 'remember', outcomes: [], endsTurn: true })
    expect(fates(FINISHED)).toEqual(['finish', 'finish'])
  })

  test('erases a skipped cycle that did nothing, and shows the skip on its messages', () => {
    const plan = planEnd(cycle, SKIPPED, facts())
    expect(plan).toMatchObject({ cycle: 'erase', ending: SKIPPED })
    expect(plan.outcomes[0]?.cycle).toEqual({ label: ['spc_2'], readingSince: 1000, readAt: 2000 })
    expect(plan.outcomes).toMatchObject([
      { messageId: 'msg_a', kind: 'SKIPPED', reason: 'Not for me.', runId: null },
      { messageId: 'msg_b', kind: 'SKIPPED', reason: 'Not for me.', runId: null },
    ])
  })

  test('treats a skip that comes too late as a normal end with the reason as its summary', () => {
    const plan = planEnd(cycle, SKIPPED, facts({ hasDoneNothing: false }))
    expect(plan).toMatchObject({ cycle: 'remember', outcomes: [], summary: 'Not for me.' })
    expect(plan.ending).toEqual({ status: 'COMPLETED', stopReason: 'SKIPPED', summary: 'Not for me.' })
  })

  test('retries the events of an outage that have a retry left, and shows the time', () => {
    const events = [event('a', { outages: 1 }), event('b', { outages: RETRY_MINUTES.length })]
    const plan = planEnd(cycle, FAILED, facts({ failure: 'provider', events }))
    expect(plan.events.map(({ fate }) => fate)).toEqual(['retry', 'finish'])
    expect(plan).toMatchObject({ cycle: 'remember', endsTurn: false })
    expect(plan.outcomes).toEqual([
      {
        messageId: 'msg_a',
        kind: 'INBOX',
        reason: "The model's provider failed: the next attempt is in 5 minutes.",
        error: null,
        runId: 'run_1',
      },
      { messageId: 'msg_b', kind: 'FAILED', reason: null, error: 'It broke off.', runId: 'run_1' },
    ])
  })

  test('isolates events that a provider refused together, and closes one that it refused alone', () => {
    expect(fates(FAILED, { failure: 'prompt' })).toEqual(['isolate', 'isolate'])
    expect(fates(FAILED, { failure: 'prompt', events: [event('a')] })).toEqual(['finish'])
    expect(fates(FAILED, { failure: 'prompt', hasDoneNothing: false })).toEqual(['finish', 'finish'])
  })

  test('postpones events whose budget is used up, closes those of a root without budget, and releases the others', () => {
    const events = [event('a', { over: 'AGENT' }), event('b', { over: 'ROOT' }), event('c')]
    expect(fates(OVER, { events })).toEqual(['postpone', 'close', 'release'])
    expect(planEnd(cycle, OVER, facts({ events }))).toMatchObject({ cycle: 'none', endsTurn: true })
    expect(planEnd(cycle, OVER, facts({ events: [event('a', { over: 'SPACE' })] })).endsTurn).toBe(false)
  })

  test('forgets deleted sources, and releases the other events unless the cycle has acted on them', () => {
    const events = [event('a', { isGone: true }), event('b')]
    expect(fates(GONE, { events })).toEqual(['release'])
    const plan = planEnd(cycle, GONE, facts({ events, hasDoneNothing: false }))
    expect(plan).toMatchObject({ cycle: 'forget', rests: false })
    expect(plan.outcomes).toMatchObject([{ messageId: 'msg_b', kind: 'DROPPED', runId: 'run_1' }])
  })

  test('hides the text of an error from the messages of a cycle with a label', () => {
    const outcomes = planEnd({ ...cycle, label: ['spc_1'] }, FAILED, facts({ events: [event('a')] })).outcomes
    expect(outcomes).toMatchObject([{ kind: 'FAILED', error: 'MODEL_FAILED' }])
  })
})

test('when another run ends, the plan only shows the end on its trigger', () => {
  const run = { ...cycle, triggerType: 'SPACE_MESSAGE', triggerMessageId: 'msg_t' }
  const outcomesOf = (ending: RunEnding, rest: Partial<EndFacts> = {}) => planEnd(run, ending, facts(rest)).outcomes
  expect(outcomesOf(FINISHED)).toEqual([])
  expect(outcomesOf(SKIPPED)).toMatchObject([{ messageId: 'msg_t', kind: 'SKIPPED', runId: 'run_1' }])
  expect(outcomesOf(SKIPPED, { hasPosted: true })).toEqual([])
  expect(outcomesOf(FINISHED, { hasActed: false })).toMatchObject([
    { messageId: 'msg_t', kind: 'SKIPPED', reason: null, runId: 'run_1' },
  ])
  expect(outcomesOf(STOPPED, { hasActed: false })).toEqual([])
  expect(outcomesOf(FAILED)).toMatchObject([{ messageId: 'msg_t', kind: 'FAILED', error: 'It broke off.' }])
  expect(outcomesOf(GONE)).toMatchObject([{ messageId: 'msg_t', kind: 'DROPPED' }])
  expect(planEnd(run, FAILED, facts())).toMatchObject({ events: [], cycle: 'none', endsTurn: true, rests: false })
})

/** The decisions of the former code in terms of its five flags, statement by statement. */
function formerly(run: EndingRun, ending: RunEnding, { hasDoneNothing, failure, events }: EndFacts) {
  const isErased = ending.status === 'COMPLETED' && ending.skipped !== undefined && hasDoneNothing
  const isOutage = ending.stopReason === 'MODEL_FAILED' && (failure === 'provider' || failure === 'unclear')
  const retried = isOutage ? events.filter(({ outages }) => outages < RETRY_MINUTES.length) : []
  const spent = ending.stopReason === 'OVER_BUDGET' && run.stepCount === 0 ? events.filter(({ over }) => over) : []
  const isPutOff = spent.length > 0
  const left = isPutOff ? [] : events
  const isRefused = ending.status === 'FAILED' && failure === 'prompt'
  const isRefusedAlone = isRefused && left.length >= 2 && hasDoneNothing
  const finished = isRefusedAlone ? [] : left.filter((one) => !retried.includes(one))
  const messages = finished.filter(({ messageId }) => messageId !== null)
  const isPutBack = isPutOff || isRefusedAlone || (retried.length > 0 && messages.length === 0 && hasDoneNothing)
  const allWait = isPutOff && spent.every(({ over }) => over !== 'ROOT')
  return {
    cycle: isErased ? 'erase' : isPutBack ? 'none' : 'remember',
    endsTurn: !(ending.status === 'FAILED' && (retried.length > 0 || allWait)),
    finished: finished.map(({ id }) => id),
    retried: retried.map(({ id }) => id),
  }
}

test('the plan decides as the flags of the former code did, for any facts', () => {
  const anyEvent = fc.record({
    id: fc.uuid(),
    messageId: fc.option(fc.uuid()),
    outages: fc.integer({ min: 0, max: 4 }),
    over: fc.option(fc.constantFrom('AGENT' as const, 'SPACE' as const, 'ROOT' as const)),
    isGone: fc.constant(false),
  })
  const anyFacts = fc.record({
    hasPosted: fc.boolean(),
    hasActed: fc.boolean(),
    hasDoneNothing: fc.boolean(),
    failure: fc.option(fc.constantFrom<Blame>('provider', 'prompt', 'unclear', 'limit')),
    events: fc.uniqueArray(anyEvent, { selector: ({ id }) => id, maxLength: 4 }),
  })
  const anyEnding = fc.constantFrom(FINISHED, SKIPPED, FAILED, OVER, STOPPED)
  fc.assert(
    fc.property(anyFacts, anyEnding, fc.nat({ max: 1 }), (some, ending, stepCount) => {
      const run = { ...cycle, stepCount }
      const plan = planEnd(run, ending, some)
      const idsOf = (fate: string) => plan.events.filter((one) => one.fate === fate).map((one) => one.event.id)
      const { cycle: became, endsTurn } = plan
      expect({ cycle: became, endsTurn, finished: idsOf('finish'), retried: idsOf('retry') }).toEqual(
        formerly(run, ending, some),
      )
      expect(plan.events.map((one) => one.event)).toEqual(some.events)
    }),
  )
})

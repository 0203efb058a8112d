import { describe, expect, test } from 'vitest'
import { waterfallOf } from '../../web/inspect/waterfall.ts'

const at = (ms: number) => new Date(Date.UTC(2030, 0, 1) + ms).toISOString()
const now = Date.UTC(2030, 0, 1) + 9000
const run = (startedAt: number | null, finishedAt: number | null) => ({
  queuedAt: at(0),
  startedAt: startedAt === null ? null : at(startedAt),
  finishedAt: finishedAt === null ? null : at(finishedAt),
})
const briefly = ({ rows }: ReturnType<typeof waterfallOf>) =>
  rows.map(({ label, from, to, isOpen }) => `${label} ${from}-${to}${isOpen ? ' …' : ''}`)

describe('the times of a run', () => {
  test('are those of the queue, its steps and its calls, in the order in which they began', () => {
    const steps = [
      { index: 0, model: 'm', startedAt: at(100), durationMs: 400, msToFirstChunk: 50 },
      { index: 1, model: 'm', startedAt: at(2500), durationMs: 300, msToFirstChunk: null },
    ]
    const calls = [{ id: 'tcl_1', toolName: 'order', createdAt: at(500), settledAt: at(2400) }]
    const chart = waterfallOf(run(80, 2900), { steps, calls, now })
    expect(briefly(chart)).toEqual(['Queued 0-80', 'Step 1: m 100-500', 'Order 500-2400', 'Step 2: m 2500-2800'])
    expect(chart.rows.map(({ firstOutput, step }) => [firstOutput, step])).toEqual([
      [null, null],
      [150, 0],
      [null, null],
      [null, 1],
    ])
    expect(chart.totalMs).toBe(2900)
  })

  test('continue while the run does', () => {
    const calls = [{ id: 'tcl_1', toolName: 'order', createdAt: at(500), settledAt: null }]
    expect(briefly(waterfallOf(run(null, null), { steps: [], calls: [], now }))).toEqual(['Queued 0-9000 …'])
    expect(briefly(waterfallOf(run(80, null), { steps: [], calls, now }))).toEqual([
      'Queued 0-80',
      'Run 80-9000 …',
      'Order 500-9000 …',
    ])
  })

  test('if steps have no times, the times of the run are used; a clock that was set back causes no negative times', () => {
    const calls = [{ id: 'tcl_1', toolName: 'order', createdAt: at(-5), settledAt: at(-9) }]
    expect(briefly(waterfallOf(run(0, 0), { steps: [], calls, now }))).toEqual(['Queued 0-0', 'Run 0-0', 'Order 0-0'])
    expect(waterfallOf(run(0, 0), { steps: [], calls, now }).totalMs).toBe(1)
  })
})

import { useEffect, useState } from 'react'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { wordsOfDuration } from '../ui/time.tsx'
import { RUN_TIMES } from './operations.ts'
import { type Row, type TimedCall, type TimedRun, type Waterfall, waterfallOf } from './waterfall.ts'

const EVERY_MS = 3000
const TICK_MS = 1000
const MOST_ROWS = 150

interface TimesProps {
  runId: string
  run: TimedRun
  calls: readonly TimedCall[]
}

/**
 * Shows how long the run waited, and how long each step and each call took, on one scale. Only admins see steps. Mount a new
 * instance when the run has ended, so that the last steps are loaded.
 */
export function Times({ runId, run, calls }: TimesProps) {
  const { isAdmin } = useSession()
  const isOver = run.finishedAt !== null
  const { data } = useAsk(RUN_TIMES, { id: runId }, { enabled: isAdmin, ...(isOver ? {} : { everyMs: EVERY_MS }) })
  const steps = (data?.run?.internals?.steps.edges ?? []).map(({ node }) => node)
  const now = useNow(!isOver)
  const chart = waterfallOf(run, { steps, calls, now })
  const rest = chart.rows.length - MOST_ROWS
  return (
    <section className="block" aria-label="Times">
      <h2>Times</h2>
      <ol className="waterfall">
        {chart.rows.slice(0, MOST_ROWS).map((row) => (
          <Bar key={row.key} row={row} chart={chart} />
        ))}
      </ol>
      {rest > 0 && <p className="hint">{rest} more are not shown.</p>}
      {!isAdmin && <p className="hint">Only admins see how long each step of the model took.</p>}
    </section>
  )
}

function useNow(isRunning: boolean): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    if (!isRunning) return
    const timer = setInterval(() => setNow(Date.now()), TICK_MS)
    return () => clearInterval(timer)
  }, [isRunning])
  return now
}

function Bar({ row, chart: { totalMs } }: { row: Row; chart: Waterfall }) {
  const { kind, label, from, to, isOpen, firstOutput, step } = row
  const share = (ms: number) => `${Math.min(100, (ms / totalMs) * 100)}%`
  const took = wordsOfDuration(to - from)
  const words = [
    `${isOpen ? 'in progress for' : 'took'} ${took}`,
    kind === 'queue' ? null : `after ${wordsOfDuration(from)}`,
    firstOutput === null ? null : `first output after ${wordsOfDuration(firstOutput - from)}`,
  ].filter(Boolean)
  return (
    <li className={`times-row of-${kind}`} title={`${label}: ${words.join(', ')}`}>
      <span className="times-label">
        {step === null ? label : <a href={`#step-${step + 1}`}>{label}</a>}
        <span className="sr-only">: {words.join(', ')}</span>
      </span>
      <span className="times-track" aria-hidden="true">
        <span
          className={isOpen ? 'open' : undefined}
          style={{ insetInlineStart: share(from), width: share(to - from) }}
        />
        {firstOutput !== null && <i style={{ insetInlineStart: share(firstOutput) }} />}
      </span>
      <span className="times-took" aria-hidden="true">
        {took}
      </span>
    </li>
  )
}

import { useState } from 'react'
import { Link } from 'wouter'
import { errorOf } from '../../client/errors.ts'
import type { ConsoleFiringFragment, PlanFiringResult } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { Loading, Refused } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Status } from '../ui/status.tsx'
import { Moment } from '../ui/time.tsx'
import { PLAN_FIRINGS } from './mind-operations.ts'

const EVERY_MS = 3000
const WORDS: Record<PlanFiringResult, string> = {
  RUN: 'Started a run.',
  INBOX: 'Added an event to the inbox.',
  STILL_WAITING: 'Skipped: the previous event is still in the inbox.',
  PAUSED: 'Skipped: the agent was paused.',
  OVER_BUDGET: 'Skipped: a budget is exhausted.',
  LIMIT: 'Skipped: the agent’s plans fired too often within the hour.',
}

/** One firing of a plan, with its result. */
export function FiringLine({ firing: { firedAt, result, run } }: { firing: ConsoleFiringFragment }) {
  return (
    <li>
      <Moment at={firedAt} />
      <span>{WORDS[result]}</span>
      {run !== null && <Link href={`/runs/${run.id}`}>Open its run</Link>}
      {run !== null && <Status of={run.status} />}
      {result === 'OVER_BUDGET' && <Status of={result} />}
    </li>
  )
}

/** All firings of a plan, newest first, loaded when opened. */
export function Firings({ planId }: { planId: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>All firings</summary>
      {isOpen && <Pages>{(page) => <FiringLines planId={planId} page={page} />}</Pages>}
    </details>
  )
}

function FiringLines({ planId, page }: { planId: string; page: PageOfList }) {
  const { after } = page
  const { data, error } = useAsk(PLAN_FIRINGS, { id: planId, after }, after === null ? { everyMs: EVERY_MS } : {})
  if (error !== null) return <Refused error={errorOf(error)} />
  if (data === undefined) return <Loading what="its firings" />
  const firings = data.node !== null && 'firings' in data.node ? data.node.firings : null
  if (firings === null) return null
  return (
    <>
      <ul className="firings" aria-label="Firings">
        {firings.edges.map(({ node }) => (
          <FiringLine key={node.id} firing={node} />
        ))}
      </ul>
      <More page={page} pageInfo={firings.pageInfo}>
        Older firings
      </More>
    </>
  )
}

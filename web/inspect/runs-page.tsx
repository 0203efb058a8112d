import { useState } from 'react'
import { Link } from 'wouter'
import type { ConsoleRunsQuery, RunFilter, RunStatus } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { Status } from '../ui/status.tsx'
import { Moment, wordsOfDuration } from '../ui/time.tsx'
import { RUNS } from './operations.ts'
import { outcomeOf } from './run-outcome.ts'

const CHOICES: readonly (readonly [string, readonly RunStatus[]])[] = [
  ['All', []],
  ['Active', ['QUEUED', 'RUNNING', 'WAITING_TOOL']],
  ['Failed', ['FAILED']],
  ['Completed', ['COMPLETED']],
  ['Canceled', ['CANCELED']],
]
const EVERY_MS = 4000

/** The runs that the viewer may see, newest first. */
export function RunsPage() {
  const [choice, setChoice] = useState(0)
  const statuses = CHOICES[choice]?.[1] ?? []
  return (
    <>
      <PageHead
        title="Runs"
        note="The work of agents, newest first. Open a run to see why it started and what it did."
      />
      <div className="page-scroll">
        <fieldset className="chips" aria-label="Filter runs">
          {CHOICES.map(([words], at) => (
            <Button key={words} aria-pressed={at === choice} onClick={() => setChoice(at)}>
              {words}
            </Button>
          ))}
        </fieldset>
        <RunList filter={statuses.length === 0 ? {} : { status: [...statuses] }} />
      </div>
    </>
  )
}

/** A list of runs, refetched periodically. */
export function RunList({ filter }: { filter: RunFilter }) {
  return <Pages>{(page) => <RunRows filter={filter} page={page} />}</Pages>
}

function RunRows({ filter, page }: { filter: RunFilter; page: PageOfList }) {
  const { isAdmin } = useSession()
  const { after } = page
  const ask = useAsk(RUNS, { filter, after }, after === null ? { everyMs: EVERY_MS } : {})
  if (ask.data === undefined) return <Unanswered what="runs" ask={ask} />
  const { edges, pageInfo } = ask.data.runs
  if (edges.length === 0 && after === null) {
    return (
      <Empty icon="branch" title={filter.status === undefined ? 'No runs yet' : 'No such runs'}>
        <p>
          {filter.status !== undefined
            ? 'Choose “All” to see the others.'
            : `An agent runs when something wakes it: a message in one of its spaces, a plan, or a service. ${
                filter.agentId == null
                  ? 'Write to one in a space, or trigger one on its page.'
                  : `Write to it in a space${isAdmin ? ', or use Trigger above' : ''}.`
              }`}
        </p>
      </Empty>
    )
  }
  return (
    <>
      <ul className="rows">
        {edges.map(({ node }) => (
          <Boundary key={node.id} what="run" version={node} text={() => node.error ?? node.triggerSummary}>
            <RunRow run={node} isOfAgent={filter.agentId != null} />
          </Boundary>
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        Older runs
      </More>
    </>
  )
}

type Row = ConsoleRunsQuery['runs']['edges'][number]['node']

/** On an agent's page, the title is the trigger; in a list of all runs, the title is the agent. */
function RunRow({ run, isOfAgent }: { run: Row; isOfAgent: boolean }) {
  const took =
    run.startedAt === null || run.finishedAt === null ? null : Date.parse(run.finishedAt) - Date.parse(run.startedAt)
  const trigger = plainLine(run.triggerSummary)
  const { state, words } = outcomeOf(run)
  return (
    <li>
      <Link href={`/runs/${run.id}`} className={`row-link run-row ${isOfAgent ? 'of-agent' : ''}`}>
        {!isOfAgent && <Avatar entity={run.agent} size={30} />}
        <b>{isOfAgent ? trigger : run.agent.name}</b>
        {(run.error !== null || !isOfAgent) && <small dir="auto">{run.error ?? trigger}</small>}
        <Status of={state} words={words} />
        <span className="note run-took">{took === null ? '' : wordsOfDuration(took)}</span>
        <span className="note run-tokens">{run.usage.totalTokens.toLocaleString()} tokens</span>
        <Moment at={run.queuedAt} />
      </Link>
    </li>
  )
}

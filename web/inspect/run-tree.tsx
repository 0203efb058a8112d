import { Link } from 'wouter'
import type { ConsoleRunsQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { Avatar } from '../ui/avatar.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { Status } from '../ui/status.tsx'
import { wordsOfDuration } from '../ui/time.tsx'
import { RUNS } from './operations.ts'
import { outcomeOf } from './run-outcome.ts'

type Run = ConsoleRunsQuery['runs']['edges'][number]['node']

interface RunTreeProps {
  rootId: string
  currentId: string
  isOver: boolean
}

/** All runs with the same root, each below the run that started it. */
export function RunTree({ rootId, currentId, isOver }: RunTreeProps) {
  const { data } = useAsk(RUNS, { filter: { rootId }, after: null }, isOver ? {} : { everyMs: 3000 })
  const runs = (data?.runs.edges ?? []).map(({ node }) => node).toReversed()
  if (runs.length < 2) return null
  const tops = runs.filter(({ parent }) => parent === null || !runs.some(({ id }) => id === parent.id))
  return (
    <section className="block">
      <h2>Runs of the same trigger</h2>
      <p className="hint">Indented runs were started by a message of the run above them.</p>
      <ul className="tree">
        {tops.map((run) => (
          <Branch key={run.id} run={run} runs={runs} currentId={currentId} />
        ))}
      </ul>
      {data?.runs.pageInfo.hasNextPage && <p className="hint">Showing the newest {runs.length}.</p>}
    </section>
  )
}

function Branch({ run, runs, currentId }: { run: Run; runs: Run[]; currentId: string }) {
  const children = runs.filter(({ parent }) => parent?.id === run.id)
  const { state, words } = outcomeOf(run)
  const took =
    run.startedAt !== null && run.finishedAt !== null ? Date.parse(run.finishedAt) - Date.parse(run.startedAt) : null
  return (
    <li>
      <Link href={`/runs/${run.id}`} className="tree-run" aria-current={run.id === currentId ? 'page' : undefined}>
        <Avatar entity={run.agent} size={24} />
        <span className="grow">
          <b>{run.agent.name}</b>
          <small>{plainLine(run.triggerSummary)}</small>
        </span>
        <Status of={state} words={words} />
        <span className="note">
          {[took === null ? null : wordsOfDuration(took), `${run.usage.totalTokens.toLocaleString()} tokens`]
            .filter(Boolean)
            .join(' · ')}
        </span>
      </Link>
      {children.length > 0 && (
        <ul>
          {children.map((child) => (
            <Branch key={child.id} run={child} runs={runs} currentId={currentId} />
          ))}
        </ul>
      )}
    </li>
  )
}

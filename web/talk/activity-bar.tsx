import { Link } from 'wouter'
import { type AgentActivity, payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { STOP_RUN } from './operations.ts'

const WORDS: Record<string, string> = {
  QUEUED: 'is queued',
  RUNNING: 'is at work',
  WAITING_TOOL: 'waits for an answer',
}
const MOST_SHOWN = 4

/** The active agents, with buttons to stop them. Hidden if no agent is active. */
export function ActivityBar({ activity }: { activity: readonly AgentActivity[] }) {
  const { connection } = useSession()
  const working = activity.filter(({ active, runs }) => active || runs.length > 0)
  const runIds = working.flatMap(({ runs }) => runs.map(({ id }) => id))
  const stop = useDo(async (ids: string[]) => {
    await Promise.all(
      ids.map(async (runId) =>
        payloadOf((await connection.ask(STOP_RUN, { runId, cascade: true })).stopRun, 'StopRunPayload'),
      ),
    )
  })
  return (
    <section className="activity" aria-label="Agents at work" hidden={working.length === 0}>
      <ul>
        {working.slice(0, MOST_SHOWN).map(({ agent, runs }) => (
          <li key={agent.id}>
            <span className="pulse" aria-hidden="true" />
            <Link
              href={runs[0] === undefined ? `/agents/${agent.id}` : `/runs/${runs[0].id}`}
              title={runs[0]?.triggerSummary}
            >
              {agent.name} {runs[0] === undefined ? 'is thinking' : (WORDS[runs[0].status] ?? 'is at work')}
            </Link>
            {runs.length > 0 && (
              <Button
                look="quiet"
                icon="stop"
                aria-label={`Stop ${agent.name}`}
                onClick={() => stop.start(runs.map(({ id }) => id))}
              >
                Stop
              </Button>
            )}
          </li>
        ))}
        {working.length > MOST_SHOWN && <li>and {working.length - MOST_SHOWN} more</li>}
      </ul>
      {working.length > 1 && runIds.length > 1 && (
        <Button look="quiet" icon="stop" onClick={() => stop.start(runIds)}>
          Stop all
        </Button>
      )}
      <Refused error={stop.error?.code === 'CONFLICT' ? null : stop.error} />
    </section>
  )
}

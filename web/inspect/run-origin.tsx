import { Link } from 'wouter'
import type { ConsoleRunQuery } from '../../generated/graphql.ts'
import { useSession } from '../session.tsx'
import { ruleFor, wordsOfReason } from '../talk/routing-words.ts'
import { Markdown } from '../ui/markdown.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { Time } from '../ui/time.tsx'

type Run = NonNullable<ConsoleRunQuery['run']>

/** Shows who caused the run and why, as far as the viewer may see it. For the rest, says why it is hidden. */
export function RunOrigin({ run }: { run: Run }) {
  const { triggerMessage, triggerSpace, triggerType, triggerSummary, parent, depth, agent } = run
  const why = triggerMessage?.outcomes.find((outcome) => outcome.agent.id === agent.id && outcome.run?.id === run.id)
  return (
    <section className="block" aria-label="Cause">
      <h2>Cause</h2>
      {triggerMessage !== null ? (
        <>
          <p>
            <b>{triggerMessage.sender.name}</b> wrote
            {triggerSpace !== null && (
              <>
                {' in '}
                <Link href={`/spaces/${triggerSpace.id}#${triggerMessage.id}`}>{triggerSpace.name}</Link>
              </>
            )}{' '}
            at <Time at={triggerMessage.createdAt} />:
          </p>
          <blockquote>
            {triggerMessage.deletedAt === null ? <Markdown text={triggerMessage.text} /> : 'The message was deleted.'}
          </blockquote>
        </>
      ) : (
        <p>{plainLine(triggerSummary)}</p>
      )}
      {triggerMessage !== null && (
        <p className="hint">Why this agent: {ruleOf(run, why?.kind === 'SKIPPED' ? null : (why?.reason ?? null))}</p>
      )}
      {triggerType === 'SPACE_MESSAGE' && triggerMessage === null && (
        <p className="hint">
          {triggerSpace === null
            ? 'You cannot see the message: it is in a space that you are not a member of.'
            : 'There is no message to show: the agent was called back without one, or the message was deleted.'}
        </p>
      )}
      <Started parent={parent} depth={depth} />
    </section>
  )
}

/** Returns the recorded reason or, for viewers who may not see it, the rule of the space. */
function ruleOf({ agent, triggerMessage, triggerSpace }: Run, reason: string | null): string {
  if (reason !== null) return wordsOfReason(reason)
  if (triggerSpace === null || triggerMessage === null) return 'Another agent involved it.'
  return ruleFor(agent.id, triggerMessage, triggerSpace)
}

function Started({ parent, depth }: Pick<Run, 'parent' | 'depth'>) {
  if (depth === 0) return null
  const hops = `${depth} ${depth === 1 ? 'agent' : 'agents'} after the original trigger`
  if (parent === null) return <p className="hint">Started by another agent’s run, which you may not see; {hops}.</p>
  return (
    <p className="hint">
      Started by <Link href={`/runs/${parent.id}`}>{parent.agent.name}’s run</Link>, {hops}.
    </p>
  )
}

const WHAT_TO_DO: Record<string, string> = {
  OVER_BUDGET: 'A budget is exhausted. Ask an admin to raise it, or try again when it is renewed.',
  TIME_LIMIT: 'The run reached its time limit. Ask for less at once, or retry.',
  MODEL_FAILED: 'The model could not answer. Retry in a minute; if it fails again, tell an admin.',
  WORKER_LOST: 'The server stopped three times while executing this run. Retry; if it fails again, tell an admin.',
  INTERNAL: 'The server had an internal error. Retry; if it fails again, give an admin the address of this page.',
}

/** Tells people what they can do. Admins also see what happened, and where they can fix it. */
export function RunFailure({ run, error, stopReason }: { run: Run; error: string; stopReason: string | null }) {
  const { isAdmin } = useSession()
  const advice = WHAT_TO_DO[stopReason ?? ''] ?? 'Retry; if it fails again, tell an admin.'
  // If a run has read from a confidential space, people get only the reason.
  const isOnlyReason = error === stopReason
  return (
    <div className="failure">
      <p>
        <strong>The run failed.</strong> {isOnlyReason ? advice : error}
      </p>
      {isOnlyReason && <p className="note">The details are confidential: an admin can see them here.</p>}
      {isAdmin && (
        <p className="note">
          {stopReason === 'OVER_BUDGET' && <Link href={`/agents/${run.agent.id}/settings`}>The agent’s budget</Link>}
          {stopReason === 'MODEL_FAILED' && (
            <>
              Correct the provider under <Link href="/models">Models</Link>, or choose another model in{' '}
              <Link href={`/agents/${run.agent.id}/settings`}>the agent’s settings</Link>, then click Retry. Other
              people see this advice instead of the provider’s message.
            </>
          )}
        </p>
      )}
    </div>
  )
}

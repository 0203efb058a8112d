import { useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useRun } from '../../client/react.ts'
import type { ConsoleRunQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { addressOf, useScrollToHash } from '../location.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { RETRY_RUN, STOP_RUN } from '../talk/operations.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { wordsOfCost } from '../ui/cost.ts'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { PlainText } from '../ui/plain-text.tsx'
import { Status } from '../ui/status.tsx'
import { Moment, wordsOfDuration } from '../ui/time.tsx'
import { CURRENT_VERSION, RUN } from './operations.ts'
import { RerunStep } from './rerun-step.tsx'
import { RunAsTest } from './run-as-test.tsx'
import { RunConfidence } from './run-confidence.tsx'
import { RunFailure, RunOrigin } from './run-origin.tsx'
import { isAwaitedDecision, isSending } from './run-outcome.ts'
import { Comparison, RunResult, useAnswers } from './run-result.tsx'
import { RunTree } from './run-tree.tsx'
import { SentSteps } from './sent-steps.tsx'
import { isEmptyStep, StepView } from './step-view.tsx'
import { Times } from './times.tsx'

type Run = NonNullable<ConsoleRunQuery['run']>
/** The fields that events update. Their values are newer than those of the query. */
type Now = Pick<Run, 'status' | 'stopReason' | 'queuedAt' | 'startedAt' | 'finishedAt' | 'usage'>

const EVERY_MS = 3000
const OVER = ['COMPLETED', 'FAILED', 'CANCELED']

/** A run from its trigger to its end: steps, tool calls, waiting, model input, and cost. */
export function RunPage({ runId }: { runId: string }) {
  const [attempt, setAttempt] = useState(0)
  return <FollowedRun key={attempt} runId={runId} onRetry={() => setAttempt(attempt + 1)} />
}

function FollowedRun({ runId, onRetry }: { runId: string; onRetry(): void }) {
  const { connection } = useSession()
  const live = useRun(connection, runId)
  const ask = useAsk(RUN, { id: runId }, live.status === 'ended' ? {} : { everyMs: EVERY_MS })
  const { data } = ask
  if (data?.run) return <RunView run={data.run} live={live} onRetry={onRetry} />
  return (
    <>
      <PageHead title="Run" />
      {data === undefined ? (
        <div className="page-scroll">
          <Unanswered what="the run" ask={ask} />
        </div>
      ) : (
        <Empty icon="branch" title="Run not found">
          <p>
            The run does not exist, or you are not a member of a space that triggered it or that it posted in. Ask the
            person who gave you this link to add you to the space. <Link href="/">Go to your spaces</Link>
          </p>
        </Empty>
      )}
    </>
  )
}

interface RunViewProps {
  run: Run
  live: ReturnType<typeof useRun>
  /** Starts following the run again. */
  onRetry(): void
}

function RunView({ run, live, onRetry }: RunViewProps) {
  const { isAdmin } = useSession()
  const verbs = useRunVerbs(run.id)
  const now = live.run ?? run
  useScrollToHash()
  const isOver = OVER.includes(now.status)
  const answers = useAnswers(run, isOver)
  const original = useOriginal(run)
  const [search] = useSearchParams()
  const steps = live.steps.filter((step) => !isEmptyStep(step) || (!isOver && step === live.steps.at(-1)))
  const sending = steps.flatMap(({ calls }) => calls.filter(isSending))
  // Each message of the run belongs to one of these calls, except messages in spaces that the viewer may not see.
  const isEachSeen = sending.length === answers.length
  const hrefs = new Map(isEachSeen ? sending.map(({ id }, at) => [id, answers[at]?.href ?? null]) : [])
  return (
    <>
      <PageHead title={`${run.agent.name}’s run`} note={plainLine(run.triggerSummary)}>
        <CopyButton
          what="a link"
          look="button"
          text={() => addressOf(`/runs/${run.id}${original === null ? '' : `?${search}`}`)}
        />
        <Link className="button plain" href={`/why/${run.id}`}>
          Why
        </Link>
        {isAdmin && isOver && now.stepCount > 0 && run.triggerType !== 'INBOX' && (
          <RerunStep runId={run.id} agentId={run.agent.id} stepCount={now.stepCount} />
        )}
        {!isOver && (
          <Button icon="stop" onClick={() => verbs.stop.start(null)} isBusy={verbs.stop.isBusy}>
            Stop
          </Button>
        )}
        {now.status === 'FAILED' && run.retriedBy === null && (
          <Button icon="retry" onClick={() => verbs.retry.start(null)} isBusy={verbs.retry.isBusy}>
            Retry
          </Button>
        )}
      </PageHead>
      <div className="page-scroll">
        <Refused error={verbs.retry.error ?? verbs.stop.error} />
        <Boundary what="summary" version={now}>
          <Facts
            run={run}
            originalId={original?.id ?? null}
            now={now}
            isAwaitingDecision={steps.some(({ calls }) => calls.some(isAwaitedDecision))}
          />
        </Boundary>
        {now.error !== null && (
          <div className="block">
            <RunFailure run={run} error={now.error} stopReason={now.stopReason} />
          </div>
        )}
        <Boundary what="part of the page" version={run}>
          {original === null ? (
            <RunResult run={run} answers={answers} />
          ) : (
            <Comparison original={original} run={run} answers={isOver ? answers : null} />
          )}
        </Boundary>
        <Boundary what="part of the page" version={run}>
          <RunOrigin run={run} />
        </Boundary>
        {run.summary !== null && run.summary !== '' && (
          <section className="block">
            <h2>Closing text</h2>
            <p className="hint">Internal: not posted to any space.</p>
            <blockquote>
              <PlainText text={run.summary} />
            </blockquote>
          </section>
        )}
        <Boundary what="chart" version={now}>
          <Times key={String(isOver)} runId={run.id} run={now} calls={steps.flatMap(({ calls }) => calls)} />
        </Boundary>
        <section className="block">
          <h2>Steps</h2>
          {!isAdmin && steps.length > 0 && (
            <p className="hint">
              You see what the agent did. Only admins see its reasoning and prompts, which may contain content from
              spaces that you are not in.
            </p>
          )}
          <Refused error={live.error} onRetry={onRetry} />
          {steps.length === 0 && live.error === null && live.status !== 'loading' && (
            <p className="hint">
              {isOver
                ? now.stepCount === 0
                  ? 'The run ended before its first step.'
                  : 'Only admins see what this run did apart from its result.'
                : 'The run has not started yet.'}
            </p>
          )}
          <ol className="steps">
            {steps.map((step) => (
              <Boundary key={step.index} what="step" version={step} text={() => step.text}>
                <StepView step={step} isLast={step === steps.at(-1) && !isOver} messageHrefs={hrefs} />
              </Boundary>
            ))}
          </ol>
        </section>
        <Boundary what="list of runs">
          <RunTree rootId={run.rootId} currentId={run.id} isOver={isOver} />
        </Boundary>
        <Boundary what="part of the page">
          {isAdmin && <RunConfidence key={String(isOver)} runId={run.id} isOver={isOver} />}
        </Boundary>
        <Boundary what="part of the page">
          {isAdmin && now.stepCount > 0 && <SentSteps runId={run.id} stepCount={now.stepCount} />}
        </Boundary>
        {isAdmin && run.triggerSpace !== null && <RunAsTest spaceId={run.triggerSpace.id} agentName={run.agent.name} />}
      </div>
    </>
  )
}

function stateOf({ status, stopReason }: Now, isAwaitingDecision: boolean): string {
  if (stopReason === 'SKIPPED') return 'SAID_NOTHING'
  return status === 'WAITING_TOOL' && isAwaitingDecision ? 'NEEDS_APPROVAL' : status
}

/** The run that was rerun to create this one. Its id is in the page's URL; null if there is none. */
function useOriginal(run: Run): Run | null {
  const [search] = useSearchParams()
  const id = search.get('of') ?? ''
  const { data } = useAsk(RUN, { id }, { enabled: id.startsWith('run_') && id !== run.id })
  return data?.run ?? null
}

interface FactsProps {
  run: Run
  /** The run of which this one is a rerun. */
  originalId: string | null
  now: Now
  isAwaitingDecision: boolean
}

function Facts({ run, originalId, now, isAwaitingDecision }: FactsProps) {
  const { usage } = now
  const [search] = useSearchParams()
  // Part of the URL of a rerun, like the original run.
  const step = Number(search.get('step'))
  const tookMs =
    now.startedAt === null ? null : Date.parse(now.finishedAt ?? new Date().toISOString()) - Date.parse(now.startedAt)
  return (
    <dl className="facts">
      <Fact name="Status">
        <Status of={stateOf(now, isAwaitingDecision)} />
        {now.stopReason !== null && STOPPED[now.stopReason]}
        {run.stoppedBy !== null && ` by ${run.stoppedBy.name}`}
      </Fact>
      <Fact name="Agent">
        <Link href={`/agents/${run.agent.id}`}>{run.agent.name}</Link>
      </Fact>
      {run.agentVersion > 0 && (
        <Fact name="Version">
          <Version agentId={run.agent.id} number={run.agentVersion} />
        </Fact>
      )}
      {run.triggerSpace !== null && (
        <Fact name="Triggered in">
          <Link
            href={`/spaces/${run.triggerSpace.id}${run.triggerMessage === null ? '' : `#${run.triggerMessage.id}`}`}
          >
            {run.triggerSpace.name}
          </Link>
        </Fact>
      )}
      <Fact name="Queued">
        <Moment at={now.queuedAt} />
      </Fact>
      {tookMs !== null && <Fact name="Duration">{wordsOfDuration(tookMs)}</Fact>}
      <Fact name="Tokens">{wordsOfUsage(usage)}</Fact>
      <Fact name="Cost">{usage.costUsd == null ? 'unknown: its model has no price' : wordsOfCost(usage.costUsd)}</Fact>
      {run.rootUsage.totalTokens > usage.totalTokens && (
        <Fact
          name={
            run.triggerType === 'SPACE_MESSAGE'
              ? 'Including all other runs from this message'
              : 'Including all other runs of the trigger'
          }
        >
          {wordsOfWhole(run.rootUsage)}
        </Fact>
      )}
      {originalId !== null && (
        <Fact name="Rerun of">
          <Link href={`/runs/${originalId}`}>the original run</Link>
          {step > 0 && `, from step ${step}`}
        </Fact>
      )}
      {run.retryOf !== null && (
        <Fact name="Retry of">
          <Link href={`/runs/${run.retryOf.id}`}>a failed run</Link>
        </Fact>
      )}
      {run.retriedBy !== null && (
        <Fact name="Retried by">
          <Link href={`/runs/${run.retriedBy.id}`}>another run</Link>
        </Fact>
      )}
    </dl>
  )
}

/** The version of the agent; for admins, whether the agent has changed since. */
function Version({ agentId, number }: { agentId: string; number: number }) {
  const { isAdmin } = useSession()
  const { data } = useAsk(CURRENT_VERSION, { id: agentId }, { enabled: isAdmin })
  const current = data?.agent?.internals?.versions.edges[0]?.node.number
  if (current === undefined) return number
  return (
    <>
      <Link href={`/agents/${agentId}/versions`}>{number}</Link>
      {current > number
        ? `, ${current - number} ${current - number === 1 ? 'change' : 'changes'} since`
        : ', the current one'}
    </>
  )
}

function wordsOfUsage({ inputTokens, cachedInputTokens, outputTokens, estimated }: Now['usage']): string {
  const cached = cachedInputTokens > 0 ? ` (${cachedInputTokens.toLocaleString()} cached)` : ''
  return `${inputTokens.toLocaleString()} in${cached}, ${outputTokens.toLocaleString()} out${estimated ? ', estimated' : ''}`
}

function wordsOfWhole({ totalTokens, costUsd }: Now['usage']): string {
  return `${totalTokens.toLocaleString()} tokens${costUsd == null ? '' : `, ${wordsOfCost(costUsd)}`}`
}

/** Why the run ended, after its status. */
const STOPPED: Record<NonNullable<Now['stopReason']>, string> = {
  FINISHED: '',
  SKIPPED: '',
  ALL_ANSWERED: ': answered every message',
  MAX_STEPS: ': reached its maximum number of steps',
  MAX_TOOL_CALLS: ': reached its maximum number of tool calls',
  TOKEN_BUDGET: ': reached its token limit',
  OVER_BUDGET: ': a budget is exhausted',
  TIME_LIMIT: ': reached its time limit',
  MODEL_FAILED: ': the model failed',
  WORKER_LOST: ': the server stopped',
  INTERNAL: ': an internal error of the server',
  STOPPED: ': stopped',
  HANDED_ON: ': delegated to another agent',
  GONE: ': the agent left, or the agent or space was deleted',
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function useRunVerbs(runId: string) {
  const { connection } = useSession()
  const stop = useDo(async (_: null) =>
    payloadOf((await connection.ask(STOP_RUN, { runId, cascade: true })).stopRun, 'StopRunPayload'),
  )
  const retry = useDo(async (_: null) =>
    payloadOf((await connection.ask(RETRY_RUN, { runId })).retryRun, 'RetryRunPayload'),
  )
  return { stop, retry }
}

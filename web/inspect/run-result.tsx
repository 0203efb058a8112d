import { Link } from 'wouter'
import type { ConsoleRunQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { Markdown } from '../ui/markdown.tsx'
import { RUN_ANSWERS } from './operations.ts'

type Run = NonNullable<ConsoleRunQuery['run']>

/** A message that a run posted in the space of its trigger. */
export interface RunAnswer {
  id: string
  text: string
  /** The path of the message. */
  href: string
}

/** The messages of an ended run in the space of its trigger, in order, as far as the viewer may see them. */
export function useAnswers({ id, triggerSpace, triggerMessage }: Run, isOver: boolean): RunAnswer[] {
  const spaceId = triggerSpace?.id ?? ''
  const after = triggerMessage?.id ?? ''
  const { data } = useAsk(RUN_ANSWERS, { spaceId, after }, { enabled: isOver && spaceId !== '' && after !== '' })
  return (data?.space?.messages.edges ?? []).flatMap(({ node }) =>
    node.run?.id === id && node.text !== ''
      ? [{ id: node.id, text: node.text, href: `/spaces/${spaceId}#${node.id}` }]
      : [],
  )
}

/** Shows people the messages of the run, or that the run said nothing and why. */
export function RunResult({ run, answers }: { run: Run; answers: readonly RunAnswer[] }) {
  if (run.stopReason !== 'SKIPPED' && answers.length === 0) return null
  return (
    <section className="block" aria-label="Result">
      <h2>Result</h2>
      <Answers run={run} answers={answers} />
    </section>
  )
}

interface ComparisonProps {
  original: Run
  run: Run
  /** Null while the run has not ended. */
  answers: readonly RunAnswer[] | null
}

/** The messages of a rerun beside those of the original run. */
export function Comparison({ original, run, answers }: ComparisonProps) {
  const before = useAnswers(original, true)
  return (
    <section className="block" aria-label="Result">
      <h2>Result</h2>
      <div className="columns">
        <div>
          <h3>Before</h3>
          <Answers run={original} answers={before} />
        </div>
        <div>
          <h3>Now</h3>
          {answers === null ? <p className="hint">The run has not ended.</p> : <Answers run={run} answers={answers} />}
        </div>
      </div>
    </section>
  )
}

function Answers({ run, answers }: { run: Run; answers: readonly RunAnswer[] }) {
  const { agent, triggerMessage, triggerSpace, stopReason } = run
  const [first] = answers
  const outcome = triggerMessage?.outcomes.find((one) => one.agent.id === agent.id && one.run?.id === run.id)
  const reason = outcome?.kind === 'SKIPPED' && stopReason === 'SKIPPED' ? outcome.reason : null
  if (first === undefined) {
    return (
      <p>
        <b>{agent.name}</b> said nothing{reason === null ? '.' : ': '}
        {reason !== null && <q dir="auto">{reason}</q>}
      </p>
    )
  }
  return (
    <>
      <p>
        <b>{agent.name}</b> answered in <Link href={first.href}>{triggerSpace?.name}</Link>:
      </p>
      {answers.map(({ id, text }) => (
        <blockquote key={id}>
          <Markdown text={text} />
        </blockquote>
      ))}
    </>
  )
}

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
  const { agent, triggerMessage, triggerSpace, stopReason } = run
  const isSilent = stopReason === 'SKIPPED'
  const [first] = answers
  if (!isSilent && first === undefined) return null
  const outcome = triggerMessage?.outcomes.find((one) => one.agent.id === agent.id && one.run?.id === run.id)
  const reason = outcome?.kind === 'SKIPPED' ? outcome.reason : null
  return (
    <section className="block" aria-label="Result">
      <h2>Result</h2>
      {first === undefined ? (
        <p>
          <b>{agent.name}</b> said nothing{reason === null ? '.' : ': '}
          {reason !== null && <q dir="auto">{reason}</q>}
        </p>
      ) : (
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
      )}
    </section>
  )
}

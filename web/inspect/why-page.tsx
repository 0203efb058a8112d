import { useState } from 'react'
import { Link } from 'wouter'
import { useAsk } from '../ask.ts'
import { PageHead } from '../shell/page-head.tsx'
import { OutcomeList } from '../talk/outcomes.tsx'
import { Button } from '../ui/button.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { PlainText } from '../ui/plain-text.tsx'
import { Moment } from '../ui/time.tsx'
import { MESSAGE_OUTCOMES, WHY, WHY_PLACE } from './operations.ts'
import { provJsonOf, type WhySteps } from './prov-json.ts'

type Step = WhySteps[number]

/**
 * Shows where a message, tool call, run or memory came from: a path back to people, plans and services, with a link for each
 * cause.
 */
export function WhyPage({ id }: { id: string }) {
  const ask = useAsk(WHY, { id })
  const steps = ask.data?.why?.steps
  return (
    <>
      <PageHead title={titleOf(steps ?? [])} note={steps?.[0] && plainLine(steps[0].text)}>
        {steps !== undefined && (
          <Button icon="down" onClick={() => save(`why-${id}.prov.json`, provJsonOf(steps))}>
            Download (PROV-JSON)
          </Button>
        )}
      </PageHead>
      {steps !== undefined && (
        <div className="page-scroll">
          {steps[0]?.kind === 'MESSAGE' && <MessageOutcomes id={id} />}
          <Path steps={steps} />
        </div>
      )}
      {steps === undefined &&
        (ask.data === undefined ? (
          <div className="page-scroll">
            <Unanswered what="the explanation" ask={ask} />
          </div>
        ) : (
          <Empty icon="branch" title="Nothing to explain">
            <p>There is no such message, tool call, run or memory, or you may not see it.</p>
          </Empty>
        ))}
    </>
  )
}

/** Lists the agents that the message woke and those that it did not wake, each with the rule. */
function MessageOutcomes({ id }: { id: string }) {
  const ask = useAsk(MESSAGE_OUTCOMES, { id })
  const message = ask.data?.node?.__typename === 'Message' ? ask.data.node : null
  return (
    <section className="block" aria-label="Agents">
      <h2>Which agents it woke, and why</h2>
      {ask.data === undefined && <Unanswered what="the agents" ask={ask} />}
      {message !== null &&
        (message.outcomes.length === 0 ? (
          <p className="hint">None: no other agent was a member of the space when it was posted.</p>
        ) : (
          <OutcomeList message={message} space={message.space} withRule />
        ))}
    </section>
  )
}

/** Returns a title such as “Why Noor answered Ada’s message”, or a general one if the run is not known. */
function titleOf(steps: WhySteps): string {
  const [explained] = steps
  if (explained === undefined) return 'Why'
  if (explained.kind === 'TOOL_CALL') return 'Why this call was made'
  if (explained.kind === 'MEMORY') return 'Why this memory exists'
  const run = runOf(steps, explained, steps.length)
  return run === undefined ? 'Why this message was posted' : `Why ${plainLine(run.text)}`
}

/** Finds the run of a step through its calls and steps, but not through other messages, which have runs of their own. */
function runOf(steps: WhySteps, step: Step, mostSteps: number): Step | undefined {
  if (step.kind === 'RUN') return step
  if (mostSteps === 0) return undefined
  const causes = causesOf(steps, step)
  const next =
    causes.find(({ kind }) => kind === 'RUN') ?? causes.find(({ kind }) => kind === 'TOOL_CALL' || kind === 'STEP')
  return next && runOf(steps, next, mostSteps - 1)
}

/** Continues a path while its last step has exactly one cause that the viewer can follow. */
function followed(steps: WhySteps, path: readonly number[]): number[] {
  const [next, ...others] = causesOf(steps, steps[path.at(-1) ?? 0]).filter(({ kind }) => kind !== 'HIDDEN')
  const index = next === undefined ? -1 : steps.indexOf(next)
  return index === -1 || others.length > 0 || path.includes(index) ? [...path] : followed(steps, [...path, index])
}

/** Describes a hidden cause. Admins see all settings and steps, so these are hidden only from other viewers. */
function wordsOfHidden(step: Step, causes: readonly Step[]): string {
  // The causes of a run are its trigger and the settings of its agent.
  if (step.kind === 'RUN' && causes.some(({ kind }) => kind !== 'HIDDEN')) {
    return 'The settings of the agent, which only admins can see.'
  }
  return step.kind === 'TOOL_CALL' ? 'The steps of the run, which only admins see.' : 'Something that you may not see.'
}

function Path({ steps }: { steps: WhySteps }) {
  const [path, setPath] = useState(() => followed(steps, [0]))
  const last = steps[path.at(-1) ?? 0]
  const causes = causesOf(steps, last)
  return (
    <section className="block">
      <h2>Where it comes from</h2>
      <p className="hint">
        Each step is caused by the next, back to the person, the plan or the service that began it.
      </p>
      <ol className="steps" aria-label="Path">
        {path.map((index, at) => {
          const step = steps[index]
          if (step === undefined) return null
          return (
            <li key={index} className="step">
              <StepHead step={step}>
                {at < path.length - 1 && (
                  <Button look="quiet" onClick={() => setPath(path.slice(0, at + 1))}>
                    Back to here
                  </Button>
                )}
              </StepHead>
              {at < path.length - 1 && <HiddenCauses steps={steps} step={step} />}
            </li>
          )
        })}
      </ol>
      {causes.length === 0 ? <p className="hint">The path ends here.</p> : <h3>Caused by</h3>}
      <ul className="rows" aria-label="Causes">
        {causes.map((cause) => {
          const index = steps.indexOf(cause)
          const isHidden = cause.kind === 'HIDDEN'
          const text = isHidden && last !== undefined ? wordsOfHidden(last, causes) : plainLine(cause.text)
          return (
            <li key={index} className="tool-row">
              <span className="grow">
                <span className="kind">{wordOf(cause)}</span> {text}
              </span>
              {path.includes(index) && <span className="note">already on the path</span>}
              {!path.includes(index) && !isHidden && (
                <Button
                  icon="chevron"
                  aria-label={`Follow ${text}`}
                  onClick={() => setPath(followed(steps, [...path, index]))}
                >
                  Follow
                </Button>
              )}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

/** Describes the hidden causes of a step on the path. */
function HiddenCauses({ steps, step }: { steps: WhySteps; step: Step }) {
  const causes = causesOf(steps, step)
  if (!causes.some(({ kind }) => kind === 'HIDDEN')) return null
  return <p className="hint">Also caused by: {wordsOfHidden(step, causes)}</p>
}

/**
 * Returns the causes of a step. The known causes of a hidden cause are listed with it, so that the viewer can continue past it.
 */
function causesOf(steps: WhySteps, step: Step | undefined): Step[] {
  const causes = (step?.causes ?? []).flatMap((index) => steps[index] ?? [])
  const behind = causes.flatMap((cause) => (cause.kind === 'HIDDEN' ? causesOf(steps, cause) : []))
  return [...new Set([...causes, ...behind])].filter((cause) => cause !== step)
}

const wordOf = ({ kind }: Step) => (kind === 'HUMAN' ? 'person' : kind.toLowerCase().replaceAll('_', ' '))

function StepHead({ step, children }: { step: Step; children: React.ReactNode }) {
  return (
    <>
      <header>
        <span className="kind">{wordOf(step)}</span>
        {step.at !== null && (
          <span className="note">
            <Moment at={step.at} />
          </span>
        )}
        {step.id !== null && <Place id={step.id} />}
        {children}
      </header>
      <PlainText text={plainLine(step.text)} />
    </>
  )
}

/** A link to the page that shows the step, if there is one. */
function Place({ id }: { id: string }) {
  const { data } = useAsk(WHY_PLACE, { id })
  const node = data?.node
  const href =
    node?.__typename === 'Message'
      ? `/spaces/${node.space.id}#${id}`
      : node?.__typename === 'ToolCall'
        ? node.run === null
          ? null
          : `/runs/${node.run.id}`
        : node?.__typename === 'Run'
          ? `/runs/${id}`
          : null
  return href === null ? null : <Link href={href}>Open</Link>
}

function save(name: string, value: unknown): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}

import { useState } from 'react'
import { Link } from 'wouter'
import type { ConsoleWhyObjectsQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { wordsOfName } from '../decide/property-titles.ts'
import { PageHead } from '../shell/page-head.tsx'
import { OutcomeList } from '../talk/outcomes.tsx'
import { Button } from '../ui/button.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { PlainText } from '../ui/plain-text.tsx'
import { Moment } from '../ui/time.tsx'
import { MESSAGE_OUTCOMES, WHY, WHY_OBJECTS } from './operations.ts'
import { provJsonOf, type WhySteps } from './prov-json.ts'

type Step = WhySteps[number]
type WhyObject = NonNullable<ConsoleWhyObjectsQuery['nodes'][number]>

/**
 * Shows where a message, tool call, run or memory came from: a path back to people, plans and services, with a link for each
 * cause.
 */
export function WhyPage({ id }: { id: string }) {
  const ask = useAsk(WHY, { id })
  const steps = ask.data?.why?.steps
  const objects = useObjects(steps ?? [])
  return (
    <>
      <PageHead
        title={titleOf(steps ?? [])}
        note={steps?.[0]?.kind === 'RUN' ? undefined : steps?.[0] && plainLine(steps[0].text)}
      >
        {steps !== undefined && (
          <Button icon="down" onClick={() => save(`why-${id}.prov.json`, provJsonOf(steps))}>
            Download (PROV-JSON)
          </Button>
        )}
      </PageHead>
      {steps !== undefined && (
        <div className="page-scroll">
          <Path key={id} steps={steps} objects={objects} />
          {steps[0]?.kind === 'MESSAGE' && <MessageOutcomes id={id} />}
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

/** Which cause the path follows first, by the kind of the step that was caused. */
const PREFERRED: Step['kind'][] = ['RUN', 'STEP', 'TOOL_CALL', 'MESSAGE', 'PLAN', 'SERVICE', 'HUMAN']
/** Among the causes of a run, its trigger comes before the run that started it. */
const PREFERRED_OF_RUN: Step['kind'][] = ['MESSAGE', 'PLAN', 'SERVICE', 'RUN', 'TOOL_CALL', 'HUMAN']

/** Continues a path to its end, through the most important cause of each step. */
function followed(steps: WhySteps, path: readonly number[]): number[] {
  const last = steps[path.at(-1) ?? 0]
  const order = last?.kind === 'RUN' ? PREFERRED_OF_RUN : PREFERRED
  const rankOf = ({ kind }: Step) => (order.includes(kind) ? order.indexOf(kind) : order.length)
  const causes = causesOf(steps, last).filter(
    (cause) => cause.kind !== 'HIDDEN' && !path.includes(steps.indexOf(cause)),
  )
  const [next] = causes.toSorted((one, other) => rankOf(one) - rankOf(other))
  return next === undefined ? [...path] : followed(steps, [...path, steps.indexOf(next)])
}

/** Describes a hidden cause. Admins see all settings and steps, so these are hidden only from other viewers. */
function wordsOfHidden(step: Step, causes: readonly Step[]): string {
  // The causes of a run are its trigger and the settings of its agent.
  if (step.kind === 'RUN' && causes.some(({ kind }) => kind !== 'HIDDEN')) {
    return 'The settings of the agent, which only admins can see.'
  }
  return step.kind === 'TOOL_CALL' ? 'The steps of the run, which only admins see.' : 'Something that you may not see.'
}

type Objects = ReadonlyMap<string, WhyObject>

/** The messages, calls and runs of the steps, as far as the viewer may see them. The query takes at most 100. */
function useObjects(steps: WhySteps): Objects {
  const found = steps.flatMap(({ id, kind }) => (id !== null && WITH_PLACE.includes(kind) ? [id] : []))
  const ids = [...new Set(found)].slice(0, MOST_OBJECTS)
  const { data } = useAsk(WHY_OBJECTS, { ids }, { enabled: ids.length > 0 })
  return new Map((data?.nodes ?? []).flatMap((node) => (node === null ? [] : [[node.id, node] as const])))
}

const WITH_PLACE: Step['kind'][] = ['MESSAGE', 'TOOL_CALL', 'RUN']
const MOST_OBJECTS = 100

/** The approvals of the calls from a step back to its run: “Ada approved Order fleece”. */
function approvalsOf(steps: WhySteps, objects: Objects): string[] {
  const passed = new Set<Step>()
  const calls: Step[] = []
  const next = steps.slice(0, 1)
  for (let step = next.pop(); step !== undefined; step = next.pop()) {
    if (passed.has(step)) continue
    passed.add(step)
    if (step.kind === 'TOOL_CALL') calls.push(step)
    const isFirst = step === steps[0]
    next.push(
      ...causesOf(steps, step).filter(
        ({ kind }) => kind === 'TOOL_CALL' || kind === 'STEP' || (isFirst && kind === 'RUN'),
      ),
    )
  }
  return calls.flatMap((call) => {
    const people = peopleOf(steps, call)
    if (people.length === 0) return []
    const title = titleOfCall(call, objects)
    return [`${LIST.format(people)} approved ${call === steps[0] || title === null ? 'the call' : title}`]
  })
}

const LIST = new Intl.ListFormat('en')

const peopleOf = (steps: WhySteps, step: Step) =>
  causesOf(steps, step).flatMap(({ kind, text }) => (kind === 'HUMAN' ? [text] : []))

function titleOfCall({ id }: Step, objects: Objects): string | null {
  const call = objects.get(id ?? '')
  return call?.__typename === 'ToolCall' ? wordsOfName(call.toolName) : null
}

/** Describes a step: a call by its agent, its title and the people who approved it. */
function wordsOfStep(steps: WhySteps, step: Step, objects: Objects): string {
  const call = objects.get(step.id ?? '')
  if (call?.__typename !== 'ToolCall') return plainLine(step.text)
  const people = peopleOf(steps, step)
  return [
    `${call.agent.name} called ${wordsOfName(call.toolName)}`,
    ...(call.status === 'DONE' ? [] : [call.status.toLowerCase()]),
    ...(people.length === 0 ? [] : [`approved by ${LIST.format(people)}`]),
    ...(step.text.endsWith(', copied') ? ['copied'] : []),
  ].join(', ')
}

/** One sentence: which run posted the message or made the call, in answer to what, after whose approvals. */
function Lead({ steps, objects }: { steps: WhySteps; objects: Objects }) {
  const [explained] = steps
  if (explained === undefined) return null
  const run = runOf(steps, explained, steps.length)
  if (run === undefined) {
    const [person] = peopleOf(steps, explained)
    if (explained.kind !== 'MESSAGE' || person === undefined) return null
    return <p>{person} posted this message.</p>
  }
  const trigger = steps[followed(steps, [steps.indexOf(run)])[1] ?? -1]
  const message = objects.get(trigger?.id ?? '')
  const approvals = approvalsOf(steps, objects)
  return (
    <p>
      <Linked step={run} objects={objects}>
        {plainLine(run.text)}
      </Linked>
      {trigger?.kind === 'MESSAGE' && message?.__typename === 'Message' && (
        <>
          {' '}
          {message.text !== '' && (
            <Linked step={trigger} objects={objects}>
              “{plainLine(shortened(message.text))}”
            </Linked>
          )}
          {trigger.at !== null && (
            <>
              {' ('}
              <Moment at={trigger.at} />)
            </>
          )}
        </>
      )}
      {trigger?.kind === 'PLAN' && `: ${plainLine(trigger.text)}`}
      {approvals.length > 0 && `, after ${LIST.format(approvals)}`}.
    </p>
  )
}

const LONGEST_QUOTE = 100

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > LONGEST_QUOTE ? `${line.slice(0, LONGEST_QUOTE)}…` : line
}

function Path({ steps, objects }: { steps: WhySteps; objects: Objects }) {
  const [path, setPath] = useState(() => followed(steps, [0]))
  return (
    <section className="block">
      <h2>How it came about</h2>
      <Lead steps={steps} objects={objects} />
      {path.length > 1 && <p className="hint">Read downwards: each step was caused by the one below it.</p>}
      <ol className="steps" aria-label="Path">
        {path.map((index, at) => {
          const step = steps[index]
          if (step === undefined) return null
          return (
            <li key={index} className="step">
              <header>
                <span className="kind">{wordOf(step)}</span>
                {/* The time of a person is when the account was created. */}
                {step.at !== null && step.kind !== 'HUMAN' && (
                  <span className="note">
                    <Moment at={step.at} />
                  </span>
                )}
                <Linked step={step} objects={objects} isOptional>
                  Open
                </Linked>
              </header>
              <PlainText text={wordsOfStep(steps, step, objects)} />
              <OtherCauses
                steps={steps}
                objects={objects}
                step={step}
                path={path}
                onFollow={(cause) => setPath(followed(steps, [...path.slice(0, at + 1), steps.indexOf(cause)]))}
              />
            </li>
          )
        })}
      </ol>
    </section>
  )
}

interface OtherCausesProps {
  steps: WhySteps
  objects: Objects
  step: Step
  path: readonly number[]
  onFollow(cause: Step): void
}

/** The causes of a step that are not on the path. */
function OtherCauses({ steps, objects, step, path, onFollow }: OtherCausesProps) {
  const causes = causesOf(steps, step)
  const others = causes.filter((cause) => cause.kind !== 'HIDDEN' && !path.includes(steps.indexOf(cause)))
  return (
    <>
      {causes.some(({ kind }) => kind === 'HIDDEN') && (
        <p className="hint">Also caused by: {wordsOfHidden(step, causes)}</p>
      )}
      {others.length > 0 && (
        <details>
          <summary>Also caused by ({others.length})</summary>
          <ul className="rows" aria-label="Other causes">
            {others.map((cause) => {
              const text = wordsOfStep(steps, cause, objects)
              return (
                <li key={steps.indexOf(cause)} className="tool-row">
                  <span className="grow">
                    <span className="kind">{wordOf(cause)}</span> {text}
                  </span>
                  {cause.causes.length > 0 && (
                    <Button aria-label={`Show where this comes from: ${text}`} onClick={() => onFollow(cause)}>
                      Show where this comes from
                    </Button>
                  )}
                </li>
              )
            })}
          </ul>
        </details>
      )}
    </>
  )
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

interface LinkedProps {
  step: Step
  objects: Objects
  /** Shows nothing if there is no link. */
  isOptional?: boolean
  children: React.ReactNode
}

/** A link to the page that shows the step, if there is one. */
function Linked({ step: { id }, objects, isOptional = false, children }: LinkedProps) {
  const href = hrefOf(id, objects)
  if (href !== null) return <Link href={href}>{children}</Link>
  return isOptional ? null : children
}

function hrefOf(id: string | null, objects: Objects): string | null {
  const node = objects.get(id ?? '')
  switch (node?.__typename) {
    case 'Message':
      return `/spaces/${node.space.id}#${id}`
    case 'ToolCall':
      return node.run === null ? null : `/runs/${node.run.id}`
    case 'Run':
      return `/runs/${id}`
    default:
      return null
  }
}

function save(name: string, value: unknown): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}

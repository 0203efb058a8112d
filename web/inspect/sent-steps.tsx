import { useEffect, useMemo, useRef, useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import type { ConsoleRunStepsQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { useHash } from '../location.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { wordsOfCost } from '../ui/cost.ts'
import { Diff } from '../ui/diff.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { wordsOfDuration } from '../ui/time.tsx'
import { ModelMessages, ModelText } from './model-messages.tsx'
import { RUN_STEPS } from './operations.ts'
import { changesBetween, listOf, type ModelMessage, type Prompt, sectionsOf, textOf, wordsOfChanges } from './prompt.ts'

type Step = NonNullable<
  NonNullable<NonNullable<ConsoleRunStepsQuery['run']>['internals']>
>['steps']['edges'][number]['node']

/** The exact model input of each step, loaded when opened. */
export function SentSteps({ runId, stepCount }: { runId: string; stepCount: number }) {
  const target = useHash()
  const isSought = target.startsWith('prompt-')
  const [isOpen, setOpen] = useState(isSought)
  const [sought, setSought] = useState('')
  return (
    <section className="block">
      <h2>Model input and output</h2>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {stepCount} {stepCount === 1 ? 'step' : 'steps'}, verbatim
        </summary>
        <input
          type="search"
          className="search"
          aria-label="Search the model input"
          placeholder="Search the model input"
          value={sought}
          onChange={(event) => setSought(event.target.value)}
        />
        {isOpen && <Steps runId={runId} sought={sought.trim().toLowerCase()} />}
      </details>
    </section>
  )
}

const PAGE_SIZE = 20
const SMALLER = 4

function Steps({ runId, sought }: { runId: string; sought: string }) {
  const [size, setSize] = useState(PAGE_SIZE)
  /** The last step of each loaded page, by the cursor at which the next page begins. */
  const lasts = useRef(new Map<string, Step>())
  return (
    <Pages>
      {(page) => (
        <StepsOfPage
          runId={runId}
          sought={sought}
          page={page}
          size={size}
          lasts={lasts.current}
          onFewer={() => setSize(Math.max(1, Math.floor(size / SMALLER)))}
        />
      )}
    </Pages>
  )
}

interface StepsOfPageProps {
  runId: string
  sought: string
  page: PageOfList
  size: number
  lasts: Map<string, Step>
  onFewer(): void
}

function StepsOfPage({ runId, sought, page, size, lasts, onFewer }: StepsOfPageProps) {
  const ask = useAsk(RUN_STEPS, { id: runId, after: page.after, first: size })
  const { data } = ask
  useEffect(() => {
    const loaded = data?.run?.internals?.steps
    const last = loaded?.edges.at(-1)?.node
    if (last !== undefined && loaded?.pageInfo.endCursor != null) lasts.set(loaded.pageInfo.endCursor, last)
  }, [data, lasts])
  if (data === undefined) {
    const isTooMuch = ask.error !== null && errorOf(ask.error).code === 'QUERY_TOO_COMPLEX'
    return (
      <>
        <Unanswered what="the steps" ask={ask} />
        {isTooMuch && size > 1 && <Button onClick={onFewer}>Load fewer steps at a time</Button>}
      </>
    )
  }
  const list = data.run?.internals?.steps
  const steps = (list?.edges ?? []).map(({ node }) => node)
  return (
    <>
      <ol className="steps">
        {steps.map((step, at) => (
          <Boundary key={step.index} what="step" version={step}>
            <SentStep
              step={step}
              before={steps[at - 1] ?? (page.after === null ? undefined : lasts.get(page.after))}
              sought={sought}
            />
          </Boundary>
        ))}
      </ol>
      {list !== undefined && (
        <More page={page} pageInfo={list.pageInfo}>
          More steps
        </More>
      )}
    </>
  )
}

/** The prompt and the response of a step: first the difference from the previous step; unchanged parts are collapsed. */
function SentStep({ step, before, sought }: { step: Step; before: Step | undefined; sought: string }) {
  const prompt = promptOf(step)
  const changes = useMemo(
    () => (before === undefined ? null : changesBetween(promptOf(before), promptOf(step))),
    [before, step],
  )
  const { messages } = prompt
  const same = changes?.same ?? 0
  return (
    <li className="step" id={`prompt-${step.index + 1}`}>
      <header>
        <h3>Step {step.index + 1}</h3>
        <span className="note">
          {step.model} · {wordsOfDuration(step.durationMs)}
          {step.msToFirstChunk !== null && `, first output after ${wordsOfDuration(step.msToFirstChunk)}`} ·{' '}
          {step.usage.inputTokens.toLocaleString()} in, {step.usage.outputTokens.toLocaleString()} out
          {step.usage.costUsd != null && `, ${wordsOfCost(step.usage.costUsd)}`} · {step.finishReason}
        </span>
        <CopyButton what={`the prompt of step ${step.index + 1}`} text={() => promptJson(step)} />
      </header>
      {step.failedModels.map(({ model, error }) => (
        <p key={model} className="why bad">
          {model}: {error}
        </p>
      ))}
      {changes !== null && <p className="note">{wordsOfChanges(changes)}</p>}
      {changes !== null && changes.instructions !== null && (
        <details open>
          <summary>How the instructions changed</summary>
          {changes.instructions === '' ? (
            <p className="hint">
              The old and new instructions differ too much to compare. The new instructions are below.
            </p>
          ) : (
            <Diff text={changes.instructions} />
          )}
        </details>
      )}
      <Instructions
        text={step.instructions}
        sought={sought}
        isSame={changes !== null && changes.instructions === null}
      />
      {changes !== null && changes.removed.length > 0 && (
        <Messages title="no longer sent" messages={changes.removed} sought={sought} />
      )}
      {same > 0 && <Messages title="as in the previous step" messages={messages.slice(0, same)} sought={sought} />}
      <ModelMessages messages={messages.slice(same)} sought={sought} />
      <details open={isFoundIn(listOf(step.response), sought)}>
        <summary>Response</summary>
        <ModelMessages messages={listOf(step.response)} sought={sought} />
      </details>
      {step.activeTools.length > 0 && <p className="note">Tools: {step.activeTools.join(', ')}</p>}
    </li>
  )
}

/** Collapsed messages, open if they contain the search text. */
function Messages({ title, messages, sought }: { title: string; messages: readonly ModelMessage[]; sought: string }) {
  return (
    <details open={isFoundIn(messages, sought)}>
      <summary>
        {messages.length} {messages.length === 1 ? 'message' : 'messages'} <span className="note">{title}</span>
      </summary>
      <ModelMessages messages={messages} sought={sought} />
    </details>
  )
}

/** The instructions, by their sections. */
function Instructions({ text, sought, isSame }: { text: string; sought: string; isSame: boolean }) {
  return (
    <details open={matches(text, sought)}>
      <summary>Instructions {isSame && <span className="note">as in the previous step</span>}</summary>
      <CopyButton what="the instructions" text={() => text} />
      {sectionsOf(text).map(({ title, text: part }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: sent instructions do not change
        <div key={at} className="sent">
          {title !== null && <h4 className="kind">{title.toLowerCase()}</h4>}
          <ModelText text={part} sought={sought} />
        </div>
      ))}
    </details>
  )
}

const promptOf = ({ instructions, messages, activeTools }: Step): Prompt => ({
  instructions,
  messages: listOf(messages),
  tools: activeTools,
})

/** Returns the prompt as JSON, which any client can send to a model again. */
const promptJson = ({ model, instructions, messages, activeTools }: Step) =>
  JSON.stringify({ model, instructions, messages, tools: activeTools }, null, 2)

const matches = (text: string, sought: string) => sought !== '' && text.toLowerCase().includes(sought)

const isFoundIn = (messages: readonly ModelMessage[], sought: string) =>
  sought !== '' && messages.some((message) => matches(textOf(message), sought))

import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import type { ConsoleRunStepsQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { isSameJson } from '../ui/json-text.ts'
import { Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { wordsOfDuration } from '../ui/time.tsx'
import { listOf, type ModelMessage, ModelMessages, ModelText, textOf } from './model-messages.tsx'
import { RUN_STEPS } from './operations.ts'

type Step = NonNullable<
  NonNullable<NonNullable<ConsoleRunStepsQuery['run']>['internals']>
>['steps']['edges'][number]['node']

/** The exact model input of each step, loaded when opened. */
export function SentSteps({ runId, stepCount }: { runId: string; stepCount: number }) {
  const [isOpen, setOpen] = useState(false)
  const [sought, setSought] = useState('')
  return (
    <section className="block">
      <h2>Model input and output</h2>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
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
  return (
    <Pages>
      {(page) => (
        <StepsOfPage
          runId={runId}
          sought={sought}
          page={page}
          size={size}
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
  onFewer(): void
}

function StepsOfPage({ runId, sought, page, size, onFewer }: StepsOfPageProps) {
  const ask = useAsk(RUN_STEPS, { id: runId, after: page.after, first: size })
  const { data } = ask
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
            <SentStep step={step} before={steps[at - 1]} sought={sought} />
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

/** The messages of a step. Those that the previous step also had are collapsed. */
function SentStep({ step, before, sought }: { step: Step; before: Step | undefined; sought: string }) {
  const messages = listOf(step.messages)
  const known = listOf(before?.messages)
  const same = countSame(messages, known)
  const fresh = messages.slice(same)
  const isSameBeginning = before !== undefined && before.instructions === step.instructions
  return (
    <li className="step">
      <header>
        <h3>Step {step.index + 1}</h3>
        <span className="note">
          {step.model} · {wordsOfDuration(step.durationMs)}
          {step.msToFirstChunk !== null && `, first output after ${wordsOfDuration(step.msToFirstChunk)}`} ·{' '}
          {step.usage.inputTokens.toLocaleString()} in, {step.usage.outputTokens.toLocaleString()} out ·{' '}
          {step.finishReason}
        </span>
      </header>
      {step.failedModels.map(({ model, error }) => (
        <p key={model} className="why bad">
          {model}: {error}
        </p>
      ))}
      <details open={matches(step.instructions, sought)}>
        <summary>Instructions {isSameBeginning && <span className="note">as in the previous step</span>}</summary>
        <ModelText text={step.instructions} sought={sought} />
      </details>
      {same > 0 && (
        <details open={sought !== '' && messages.slice(0, same).some((message) => matches(textOf(message), sought))}>
          <summary>
            {same} {same === 1 ? 'message' : 'messages'} <span className="note">as in the previous step</span>
          </summary>
          <ModelMessages messages={messages.slice(0, same)} sought={sought} />
        </details>
      )}
      <ModelMessages messages={fresh} sought={sought} />
      <details>
        <summary>Response</summary>
        <ModelMessages messages={listOf(step.response)} sought={sought} />
      </details>
      {step.activeTools.length > 0 && <p className="note">Tools: {step.activeTools.join(', ')}</p>}
    </li>
  )
}

const matches = (text: string, sought: string) => sought !== '' && text.toLowerCase().includes(sought)

function countSame(messages: ModelMessage[], known: ModelMessage[]): number {
  let count = 0
  while (count < known.length && isSameJson(messages[count], known[count])) count += 1
  return count
}

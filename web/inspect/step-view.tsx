import { memo } from 'react'
import { Link } from 'wouter'
import type { RunStep } from '../../client/index.ts'
import { stateOf } from '../decide/approval-view.tsx'
import { wordsOfName } from '../decide/property-titles.ts'
import { CallFiles, CallValue, plainCall } from '../talk/call-card.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { Icon } from '../ui/icons.tsx'
import { isSameJson } from '../ui/json-text.ts'
import { PlainText } from '../ui/plain-text.tsx'
import { Status } from '../ui/status.tsx'
import { Countdown } from '../ui/time.tsx'

const HIDDEN = 'You cannot see the input. Only admins can, and members of a space that shows the call.'

/** Returns whether a step has nothing that the viewer may see. */
export const isEmptyStep = ({ text, reasoning, inputs, calls }: RunStep) =>
  text === '' && reasoning === '' && inputs.length === 0 && calls.length === 0

interface StepViewProps {
  step: RunStep
  isLast: boolean
  /** The path of the message that each call posted. */
  messageHrefs: ReadonlyMap<string, string | null>
}

/** One generation of the model: its reasoning, its internal text, and its tool calls with their results. */
export const StepView = memo(function StepView({ step, isLast, messageHrefs }: StepViewProps) {
  const { index, text, reasoning, inputs, calls, usage } = step
  const unfinished = inputs.filter(({ toolCallId }) => !calls.some(({ id }) => id === toolCallId))
  return (
    <li className="step" id={`step-${index + 1}`}>
      <header>
        <h3>Step {index + 1}</h3>
        {usage !== null && (
          <span className="note">
            {usage.inputTokens.toLocaleString()} tokens in, {usage.outputTokens.toLocaleString()} out
          </span>
        )}
        {isLast && usage === null && <Status of="RUNNING" />}
        <CopyButton
          what={`a link to step ${index + 1}`}
          text={() => `${location.href.split('#')[0]}#step-${index + 1}`}
        />
      </header>
      {reasoning !== '' && (
        <details>
          <summary>Reasoning</summary>
          <PlainText className="thought" text={reasoning} />
        </details>
      )}
      {text !== '' && (
        <div>
          <span className="kind">internal text</span>
          <PlainText className="thought" text={text} />
        </div>
      )}
      {calls.map((call) => (
        <Boundary key={call.id} what="tool call" version={call} text={() => plainCall(call)}>
          <section className="call" aria-label={`Tool call ${call.toolName}`}>
            <header>
              <Icon name="wrench" size={16} />
              <b title={call.toolName}>{wordsOfName(call.toolName)}</b>
              <Status of={stateOf(call)} />
              <Link href={`/why/${call.id}`}>Why</Link>
              {call.status === 'WAITING' && call.expiresAt !== null && <Countdown until={call.expiresAt} />}
            </header>
            <LabeledValue label="Input" value={call.input} schema={call.inputSchema} />
            {call.error !== null && <PlainText className="why bad" text={call.error} />}
            {!isSameJson(call.output, call.input) && (
              <Result call={call} messageHref={messageHrefs.get(call.id) ?? null} />
            )}
            <CallFiles call={call} />
            {call.input === null && call.error === null && (
              <HiddenInput toolName={call.toolName} messageHref={messageHrefs.get(call.id) ?? null} />
            )}
          </section>
        </Boundary>
      ))}
      {unfinished.map(({ toolCallId, toolName, json }) => (
        <section key={toolCallId} className="call" aria-label={`Tool call ${toolName}`}>
          <header>
            <Icon name="wrench" size={16} />
            <code>{toolName}</code>
            <Status of="STREAMING" />
          </header>
          <PlainText className="unfinished" text={json} />
        </section>
      ))}
    </li>
  )
})

interface ResultProps {
  call: RunStep['calls'][number]
  messageHref: string | null
}

/** The result of a call. If that is only the id of a message that the viewer sees, a link to the message. */
function Result({ call: { output, resultSchema }, messageHref }: ResultProps) {
  const isOnlyMessage =
    typeof output === 'object' && output !== null && Object.keys(output).every((name) => name === 'messageId')
  if (isOnlyMessage && messageHref !== null) return <Link href={messageHref}>See the message</Link>
  return <LabeledValue label="Result" value={output} schema={resultSchema} />
}

function LabeledValue({ label, value, schema }: { label: string; value: unknown; schema: unknown }) {
  if (value === null || value === undefined) return null
  return (
    <>
      <b className="note">{label}</b>
      <CallValue label="JSON" value={value} schema={schema} />
    </>
  )
}

/** Shown instead of the input of a call: a link to its message if the viewer may see that, or else why the input is hidden. */
function HiddenInput({ toolName, messageHref }: { toolName: string; messageHref: string | null }) {
  if (messageHref !== null) return <Link href={messageHref}>See the message</Link>
  // The result of the run already shows why the agent said nothing.
  return toolName === 'skip' ? null : <p className="hint">{HIDDEN}</p>
}

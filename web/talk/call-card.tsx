import { memo } from 'react'
import type { ToolCall } from '../../client/index.ts'
import { AnswerForm } from '../decide/answer-form.tsx'
import { AnsweredBy, ApprovalView, Claim, ClaimedByOther, stateOf, verdictOf } from '../decide/approval-view.tsx'
import { GrantOfCall } from '../decide/grants.tsx'
import { entriesInOrder, titleOf, wordsOfName, wordsOfValue } from '../decide/property-titles.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Icon } from '../ui/icons.tsx'
import { inBrief, Json } from '../ui/json.tsx'
import { isSameJson, jsonText } from '../ui/json-text.ts'
import { PlainText } from '../ui/plain-text.tsx'
import { Status } from '../ui/status.tsx'
import { Countdown } from '../ui/time.tsx'
import { FileView } from './file-view.tsx'

/** A visible tool call: its input, status and result, and a form if the viewer may answer. */
export const CallCard = memo(function CallCard({ call }: { call: ToolCall }) {
  return (
    <Boundary what="tool call" version={call} text={() => plainCall(call)}>
      <Card call={call} />
    </Boundary>
  )
})

/** A call as plain text, for when its card cannot be rendered. */
export const plainCall = ({
  toolName,
  input,
  output,
  error,
}: Pick<ToolCall, 'toolName' | 'input' | 'output' | 'error'>) =>
  [toolName, jsonText(input).text, error, output === null ? null : jsonText(output).text].filter(Boolean).join('\n')

function Card({ call }: { call: ToolCall }) {
  const { toolName, status, input, output, error, expiresAt } = call
  const isAsking = status === 'WAITING'
  const isUndecided = isAsking || call.approval?.state === 'PENDING'
  const verdict = verdictOf(call)
  // If a call was not approved, its result is a text for the model. The lines below tell people the same.
  const isUnapproved = call.approval?.state === 'DENIED' || call.approval?.state === 'EXPIRED'
  return (
    <section
      className={`call ${isAsking ? 'asking' : ''}`}
      aria-label={`Tool call ${toolName} ${input === null ? '' : inBrief(input, 80)}`}
    >
      <header>
        <Icon name="wrench" size={16} />
        <b title={toolName}>{wordsOfName(toolName)}</b>
        {/* The names of two tools can have the same words. */}
        {isUndecided && !isPlainName(toolName) && <code>{toolName}</code>}
        <Status of={stateOf(call)} />
        {isAsking && expiresAt !== null && <Countdown until={expiresAt} />}
      </header>
      <CallValue label="Input" value={input} schema={call.inputSchema} />
      {error !== null && !isUnapproved && <PlainText className="why bad" text={error} />}
      {verdict === null && !isUnapproved && !isSameJson(output, input) && (
        <CallValue label="Result" value={output} schema={call.resultSchema} />
      )}
      <CallFiles call={call} />
      {isAsking && call.waitsFor !== 'MESSAGE' && <ClaimedByOther call={call} />}
      <ApprovalView call={call} />
      <GrantOfCall call={call} />
      {isAsking && call.waitsFor === 'RESULT' && <AnswerForm call={call} />}
      {isAsking && call.waitsFor === 'RESULT' && (
        <div className="decide-others">
          <Claim call={call} />
        </div>
      )}
      <AnsweredBy call={call} />
    </section>
  )
}

/** The files that the tool has returned. */
export const CallFiles = ({ call: { files } }: { call: Pick<ToolCall, 'files'> }) =>
  files.map((file) => <FileView key={file.id} file={file} />)

/** Returns whether a tool's name can be recovered from its words: true for `order_supplies`, false for `order-supplies`. */
const isPlainName = (toolName: string) => toolName === wordsOfName(toolName).toLowerCase().replaceAll(' ', '_')

/** Objects with more properties than this are shown as JSON. */
const MOST_ENTRIES = 40

interface CallValueProps {
  label: 'Input' | 'Result' | 'JSON'
  value: unknown
  /** A JSON Schema with titles for the properties. If it is null, names are shown as words; if it is undefined, unchanged. */
  schema?: unknown
}

/** The input or result of a call. An object of short values is shown as a list, and anything else as JSON. */
export function CallValue({ label, value, schema }: CallValueProps) {
  if (value === null || value === undefined) return null
  const entries = typeof value === 'object' && !Array.isArray(value) ? entriesInOrder(value, schema) : []
  const isPlain =
    entries.length > 0 &&
    entries.length <= MOST_ENTRIES &&
    entries.every(([, value]) => typeof value !== 'object' && inBrief(value, 400).length < 400)
  if (!isPlain) return <Json label={label} value={value} />
  return (
    <dl className={`call-value ${label.toLowerCase()}`}>
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt title={name}>{schema === undefined ? name : titleOf(name, schema)}</dt>
          <dd dir="auto">{schema === undefined ? String(value) : wordsOfValue(value, titleOf(name, schema))}</dd>
        </div>
      ))}
    </dl>
  )
}

import { useEffect, useRef, useState } from 'react'
import { payloadOf, type ToolCall } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Form, SelectField, TextField } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { inBrief } from '../ui/json.tsx'
import { Moment } from '../ui/time.tsx'
import { type Bounds, type Limit, letThrough, schemaOf, wordsOfLimit } from './grant-bounds.ts'
import { PAST_CALLS, PLACE_OF_CALL, PROPOSE_GRANT } from './operations.ts'
import { entriesInOrder, inputInWords, titleOf, wordsOfName } from './property-titles.ts'

const TIMES = [
  ['3600', '1 hour'],
  ['28800', '8 hours'],
  ['86400', '1 day'],
  ['604800', '7 days'],
  ['2592000', '30 days'],
] as const
const DEFAULT_CALLS = '10'
const MOST_PROPERTIES = 12
const MOST_PAST = 20

interface GrantFormProps {
  call: ToolCall
  onBack(): void
}

/** Proposes that calls like this one are executed without approval, within bounds. Also approves this call. */
export function GrantForm({ call, onBack }: GrantFormProps) {
  const { connection } = useSession()
  const schema = call.inputSchema
  const entries = boundableOf(call)
  const numeric = numericOf(call)
  // If nothing else is entered, the grant covers only calls whose input does not exceed that of this call.
  const [limits, setLimits] = useState<Record<string, Limit>>(() =>
    Object.fromEntries(entries.map(([name, value]) => [name, typeof value === 'number' ? atMost(value) : only(value)])),
  )
  const [calls, setCalls] = useState(DEFAULT_CALLS)
  const [amountProperty, setAmountProperty] = useState('')
  const [amount, setAmount] = useState('')
  const [seconds, setSeconds] = useState('86400')
  const place = useAsk(PLACE_OF_CALL, { id: call.id }).data?.node
  const space = place?.__typename === 'ToolCall' ? (place.message?.space ?? null) : null
  const bounds: Bounds = {
    limits,
    maxCalls: calls.trim() === '' ? null : Number(calls),
    amountProperty: amountProperty === '' ? null : amountProperty,
    maxAmount: amountProperty === '' || amount.trim() === '' ? null : Number(amount),
  }
  const propose = useDo(async (_: FormData) => {
    const { maxCalls, maxAmount } = bounds
    const input = {
      toolCallId: call.id,
      inputSchema: schemaOf(limits),
      maxCalls,
      amountProperty: bounds.amountProperty,
      maxAmount,
      expiresInSeconds: Number(seconds),
      approveCall: true,
    }
    const made = await connection.ask(PROPOSE_GRANT, { input })
    payloadOf(made.proposeStandingGrant, 'ProposeStandingGrantPayload')
    onBack()
  })
  const quorum = call.approval?.quorum ?? 1
  const section = useRef<HTMLElement>(null)
  useEffect(() => {
    // After the list of messages has measured the form: it moves by the growth of what begins above the window.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => section.current?.scrollIntoView({ block: 'start' }))
    })
    return () => cancelAnimationFrame(frame)
  }, [])
  return (
    <section ref={section} className="grant-form" aria-label={`Allow calls of ${call.toolName}`}>
      <p>
        <b>Allow later calls like this</b>
      </p>
      <p className="note">
        Later calls of “{wordsOfName(call.toolName)}” by {call.agent.name}
        {space === null ? '' : ` in ${space.name}`} within all of these bounds are executed without asking.{' '}
        {quorum > 1 && `This takes effect once ${quorum} people have approved it. `}
        You can revoke it at any time.
      </p>
      <Form
        label={`Bounds for ${call.toolName}`}
        submit="Approve and allow"
        isBusy={propose.isBusy}
        error={propose.error}
        onSubmit={propose.start}
        onBack={onBack}
      >
        {entries.map(([name, value]) => (
          <LimitFields
            key={name}
            title={titleOf(name, schema)}
            value={value}
            limit={limits[name]}
            onChange={(next) => setLimits(withLimit(limits, name, next))}
          />
        ))}
        <TextField
          label="Number of calls"
          type="number"
          min={1}
          step={1}
          value={calls}
          hint="Empty means any number, if another bound is set."
          onChange={(event) => setCalls(event.target.value)}
        />
        {numeric.length > 0 && (
          <SelectField
            label="Limit the sum of"
            value={amountProperty}
            hint="Limits the sum over all later calls, for example the price of all orders."
            options={[['', 'no sum'], ...numeric.map((name) => [name, titleOf(name, schema)] as const)]}
            onChange={(event) => setAmountProperty(event.target.value)}
          />
        )}
        {amountProperty !== '' && (
          <TextField
            label={`Sum of ${titleOf(amountProperty, schema)}, at most`}
            type="number"
            min={0}
            step="any"
            required
            value={amount}
            onChange={(event) => setAmount(event.target.value)}
          />
        )}
        <SelectField
          label="Valid for"
          value={seconds}
          options={TIMES}
          onChange={(event) => setSeconds(event.target.value)}
        />
        <PastInputs call={call} spaceId={space?.id ?? null} bounds={bounds} />
        <Summary call={call} bounds={bounds} seconds={Number(seconds)} />
      </Form>
    </section>
  )
}

/** Describes what the grant would allow. */
function Summary({ call, bounds, seconds }: { call: ToolCall; bounds: Bounds; seconds: number }) {
  const { limits, maxCalls, amountProperty, maxAmount } = bounds
  const { input, inputSchema: schema } = call
  const names = typeof input === 'object' && input !== null ? entriesInOrder(input, schema).map(([name]) => name) : []
  const times = maxCalls === null ? 'any number of times' : `up to ${maxCalls} ${maxCalls === 1 ? 'time' : 'times'}`
  return (
    <div className="grant-summary" role="status">
      <p>
        {call.agent.name} may call “{wordsOfName(call.toolName)}” <b>{times}</b> until{' '}
        <Moment at={new Date(Date.now() + seconds * 1000).toISOString()} /> without asking:
      </p>
      <ul>
        {names.map((name) => (
          <li key={name}>{wordsOfLimit(name, limits[name], schema)}</li>
        ))}
        {amountProperty !== null && maxAmount !== null && (
          <li>
            Sum of {titleOf(amountProperty, schema)}: at most {maxAmount}
          </li>
        )}
      </ul>
    </div>
  )
}

interface LimitFieldsProps {
  title: string
  value: unknown
  limit: Limit | undefined
  onChange(limit: Limit | undefined): void
}

function LimitFields({ title, value, limit, onChange }: LimitFieldsProps) {
  const isNumber = typeof value === 'number'
  const choose = (choice: string) => {
    if (choice === 'ANY') onChange(undefined)
    else onChange(choice === 'AT_MOST' && isNumber ? atMost(value) : only(value))
  }
  return (
    <div className="limit-fields">
      <SelectField
        label={title}
        value={limit?.type ?? 'ANY'}
        options={[
          ['ANY', 'any value'],
          ['ONLY', `only ${inBrief(value, 60)}`],
          ...(isNumber ? ([['AT_MOST', 'at most …']] as const) : []),
        ]}
        onChange={(event) => choose(event.target.value)}
      />
      {limit?.type === 'AT_MOST' && (
        <TextField
          label={`${title}, at most`}
          type="number"
          step="any"
          required
          value={Number.isNaN(limit.value) ? '' : limit.value}
          onChange={(event) => onChange(atMost(event.target.valueAsNumber))}
        />
      )}
    </div>
  )
}

/** Lists earlier inputs of the tool in this space, and whether the bounds would have covered them. */
function PastInputs({ call, spaceId, bounds }: { call: ToolCall; spaceId: string | null; bounds: Bounds }) {
  const { data } = useAsk(PAST_CALLS, { agentId: call.agent.id })
  const past = (data?.runs.edges ?? [])
    .flatMap(({ node }) => node.toolCalls)
    .filter(({ id, toolName, message, input }) => {
      const isHere = (message?.space.id ?? null) === spaceId
      return toolName === call.toolName && isHere && id !== call.id && input !== null
    })
    .toSorted((one, other) => one.createdAt.localeCompare(other.createdAt))
    .slice(-MOST_PAST)
  const within = letThrough(
    bounds,
    past.map(({ input }) => input),
  )
  const count = within.filter(Boolean).length
  if (past.length === 0) return <p className="note">There are no earlier calls in this space to compare with.</p>
  return (
    <section className="past-inputs" aria-label="Earlier calls">
      <p className="note" role="status">
        These bounds would have let through {count} of the last {past.length} calls:
      </p>
      <ul>
        {past.map(({ id, input, createdAt }, at) => (
          <li key={id} data-within={within[at]}>
            <span className={within[at] ? 'good' : 'bad'}>
              <Icon name={within[at] ? 'check' : 'cross'} size={14} />
              <span className="sr-only">{within[at] ? 'let through' : 'asked about'}</span>
            </span>
            <span className="grow one-line">{inBrief(inputInWords(input, call.inputSchema) ?? input, 160)}</span>
            <Moment at={createdAt} />
          </li>
        ))}
      </ul>
    </section>
  )
}

const only = (value: unknown): Limit => ({ type: 'ONLY', value })
const atMost = (value: number): Limit => ({ type: 'AT_MOST', value })

function withLimit(limits: Record<string, Limit>, name: string, limit: Limit | undefined): Record<string, Limit> {
  const { [name]: _, ...others } = limits
  return limit === undefined ? others : { ...others, [name]: limit }
}

/** Returns the properties of an input for which the form can set bounds: strings, numbers and booleans. */
function boundableOf({ input, inputSchema }: ToolCall): [string, unknown][] {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return []
  const scalars = entriesInOrder(input, inputSchema).filter(([, value]) =>
    ['string', 'number', 'boolean'].includes(typeof value),
  )
  return scalars.slice(0, MOST_PROPERTIES)
}

/** Returns the properties that are numbers according to the tool's schema. */
function numericOf({ inputSchema }: ToolCall): string[] {
  const { properties } = (inputSchema ?? {}) as { properties?: Record<string, { type?: string | string[] }> }
  return Object.entries(properties ?? {}).flatMap(([name, { type }]) =>
    [type].flat().some((one) => one === 'number' || one === 'integer') ? [name] : [],
  )
}

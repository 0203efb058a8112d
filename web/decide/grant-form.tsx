import { useState } from 'react'
import { payloadOf, type ToolCall } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Form, SelectField, TextField } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { inBrief } from '../ui/json.tsx'
import { Moment } from '../ui/time.tsx'
import { type Bounds, type Limit, letThrough, schemaOf } from './grant-bounds.ts'
import { PAST_CALLS, PLACE_OF_CALL, PROPOSE_GRANT } from './operations.ts'

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
  const entries = boundableOf(call.input)
  const numeric = numericOf(call)
  const [limits, setLimits] = useState<Record<string, Limit>>(() =>
    Object.fromEntries(entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, only(value)]] : []))),
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
  return (
    <section className="grant-form" aria-label={`Allow calls of ${call.toolName}`}>
      <p className="note">
        Later calls of <code>{call.toolName}</code> by {call.agent.name}
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
      >
        {entries.map(([name, value]) => (
          <LimitFields
            key={name}
            name={name}
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
            label="Sum of"
            value={amountProperty}
            options={[['', 'nothing'], ...numeric.map((name) => [name, name] as const)]}
            onChange={(event) => setAmountProperty(event.target.value)}
          />
        )}
        {amountProperty !== '' && (
          <TextField
            label={`Sum of ${amountProperty}, at most`}
            type="number"
            min={0}
            step="any"
            required
            value={amount}
            onChange={(event) => setAmount(event.target.value)}
          />
        )}
        <SelectField label="For" value={seconds} options={TIMES} onChange={(event) => setSeconds(event.target.value)} />
        <PastInputs call={call} spaceId={space?.id ?? null} bounds={bounds} />
        <div>
          <Button look="quiet" onClick={onBack}>
            Back
          </Button>
        </div>
      </Form>
    </section>
  )
}

interface LimitFieldsProps {
  name: string
  value: unknown
  limit: Limit | undefined
  onChange(limit: Limit | undefined): void
}

function LimitFields({ name, value, limit, onChange }: LimitFieldsProps) {
  const isNumber = typeof value === 'number'
  const choose = (choice: string) => {
    if (choice === 'ANY') onChange(undefined)
    else onChange(choice === 'AT_MOST' && isNumber ? { type: 'AT_MOST', value } : only(value))
  }
  return (
    <>
      <SelectField
        label={name}
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
          label={`${name}, at most`}
          type="number"
          step="any"
          required
          value={Number.isNaN(limit.value) ? '' : limit.value}
          onChange={(event) => onChange({ type: 'AT_MOST', value: event.target.valueAsNumber })}
        />
      )}
    </>
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
            <span className="grow one-line">{inBrief(input, 160)}</span>
            <Moment at={createdAt} />
          </li>
        ))}
      </ul>
    </section>
  )
}

const only = (value: unknown): Limit => ({ type: 'ONLY', value })

function withLimit(limits: Record<string, Limit>, name: string, limit: Limit | undefined): Record<string, Limit> {
  const { [name]: _, ...others } = limits
  return limit === undefined ? others : { ...others, [name]: limit }
}

/** Returns the properties of an input that the form can bound: strings, numbers and booleans. */
function boundableOf(input: unknown): [string, unknown][] {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return []
  const scalars = Object.entries(input).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
  return scalars.slice(0, MOST_PROPERTIES)
}

/** Returns the properties that are numbers according to the tool's schema. */
function numericOf({ inputSchema }: ToolCall): string[] {
  const { properties } = (inputSchema ?? {}) as { properties?: Record<string, { type?: string | string[] }> }
  return Object.entries(properties ?? {}).flatMap(([name, { type }]) =>
    [type].flat().some((one) => one === 'number' || one === 'integer') ? [name] : [],
  )
}

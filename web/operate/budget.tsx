import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { BudgetInput, ConsoleAgentSettingsFragment, ConsoleBudgetFragment } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { UPDATE_SPACE } from '../talk/operations.ts'
import { wordsOfCost } from '../ui/cost.ts'
import { Form, numberIn, TextField } from '../ui/field.tsx'
import { Folded } from '../ui/folded.tsx'
import { SPACE_BUDGET, SPENT, UPDATE_AGENT, UPDATE_PERSON } from './operations.ts'

type Budget = ConsoleBudgetFragment

const DAY_MS = 86_400_000
const EVERY_MS = 5000

/** Returns whether a daily budget is exhausted, so that nothing wakes the agent until the next day (UTC). */
export function isDaySpent(budget: Budget | null): boolean {
  if (budget === null) return false
  const { tokensPerDay, tokensSpentToday, usdPerDay, usdSpentToday } = budget
  return isReached(tokensPerDay, tokensSpentToday) || isReached(usdPerDay, usdSpentToday)
}

const isReached = (limit: number | null, spent: number | null) => limit !== null && spent !== null && spent >= limit

/** Shows and edits an agent's budget, and today's spending. */
export function AgentBudget({ agent: { id, internals } }: { agent: ConsoleAgentSettingsFragment }) {
  const { connection } = useSession()
  const save = async (budget: BudgetInput) => {
    payloadOf((await connection.ask(UPDATE_AGENT, { input: { id, budget } })).updateAgent, 'UpdateAgentPayload')
  }
  return (
    <section className="block end-of-form" aria-label="Budget">
      <h2>Budget</h2>
      <BudgetView whose={{ agentId: id }} budget={internals?.budget ?? null} save={save} />
    </section>
  )
}

/** The budget of a space: visible to its members, set by an operator. */
export function SpaceBudget({ spaceId }: { spaceId: string }) {
  const { connection, isAdmin } = useSession()
  const { data } = useAsk(SPACE_BUDGET, { id: spaceId }, { everyMs: EVERY_MS })
  const save = async (budget: BudgetInput) => {
    const made = await connection.ask(UPDATE_SPACE, { input: { id: spaceId, budget } })
    payloadOf(made.updateSpace, 'UpdateSpacePayload')
  }
  const budget = data?.space?.budget ?? null
  if (!data?.space || (budget === null && !isAdmin)) return null
  return (
    <section aria-label="Budget">
      <Folded title="Budget">
        <BudgetView whose={{ spaceId }} budget={budget} save={save} />
      </Folded>
    </section>
  )
}

/** The budget of a person, for everything that starts with one of the person's messages. */
export function HumanBudget({ human, budget }: { human: { id: string; name: string }; budget: Budget | null }) {
  const { connection } = useSession()
  const save = async (next: BudgetInput) => {
    const made = await connection.ask(UPDATE_PERSON, { input: { id: human.id, budget: next } })
    payloadOf(made.updateHuman, 'UpdateHumanPayload')
  }
  return (
    <section className="block card" aria-label="Budget">
      <h2>Budget</h2>
      <p className="hint">Limits what agents spend, all together, on the messages of {human.name}.</p>
      <BudgetView whose={null} budget={budget} save={save} />
    </section>
  )
}

interface BudgetViewProps {
  /** Spending is shown only next to a limit; null leaves it out. */
  whose: { agentId?: string; spaceId?: string } | null
  budget: Budget | null
  save(budget: BudgetInput): Promise<void>
}

function BudgetView({ whose, budget, save }: BudgetViewProps) {
  const { isAdmin } = useSession()
  return (
    <>
      {budget !== null && <Meters budget={budget} />}
      {budget === null && (whose === null ? <p className="hint">No limit is set.</p> : <SpentToday {...whose} />)}
      {isDaySpent(budget) && (
        <p className="over-budget" role="status">
          Today’s budget is exhausted. Work resumes at midnight UTC, or when the budget is raised.
        </p>
      )}
      {isAdmin && <BudgetForm budget={budget} save={save} />}
    </>
  )
}

/** Shows today's spending if there is no limit. */
function SpentToday(whose: NonNullable<BudgetViewProps['whose']>) {
  const day = new Date()
  day.setUTCHours(0, 0, 0, 0)
  const span = { from: day.toISOString(), to: new Date(day.getTime() + DAY_MS).toISOString() }
  const { data } = useAsk(SPENT, { ...span, ...whose }, { everyMs: EVERY_MS })
  const [row] = data?.usage ?? []
  const tokens = row === undefined ? 0 : row.inputTokens + row.outputTokens
  const cost = row?.costUsd ? `, ${wordsOfCost(row.costUsd)}` : ''
  return (
    <p className="hint">
      No limit is set. Spent today: {tokens.toLocaleString()} tokens{cost}.
    </p>
  )
}

function Meters({ budget }: { budget: Budget }) {
  const { tokensPerDay, usdPerDay, tokensSpentToday, usdSpentToday, tokensPerRoot, usdPerRoot } = budget
  const perRoot = [
    ...(tokensPerRoot === null ? [] : [wordsOfTokens(tokensPerRoot)]),
    ...(usdPerRoot === null ? [] : [wordsOfCost(usdPerRoot)]),
  ]
  return (
    <>
      <Meter name="Tokens today" spent={tokensSpentToday} limit={tokensPerDay} wordsOf={(of) => of.toLocaleString()} />
      <Meter name="Cost today" spent={usdSpentToday} limit={usdPerDay} wordsOf={wordsOfCost} />
      {perRoot.length > 0 && (
        <p className="hint">Each request, with everything it starts, may use {perRoot.join(' and ')}.</p>
      )}
    </>
  )
}

const wordsOfTokens = (tokens: number) => `${tokens.toLocaleString()} tokens`

interface MeterProps {
  name: string
  /** Null if unknown. */
  spent: number | null
  limit: number | null
  wordsOf(amount: number): string
}

function Meter({ name, spent, limit, wordsOf }: MeterProps) {
  const words = `${spent === null ? 'unknown' : wordsOf(spent)}${limit === null ? '' : ` of ${wordsOf(limit)}`}`
  const share = spent === null || limit === null ? 0 : limit === 0 ? 100 : Math.min(100, (spent / limit) * 100)
  return (
    <div className={`meter ${isReached(limit, spent) ? 'spent' : ''}`}>
      <p className="meter-words">
        {name} <b>{words}</b>
      </p>
      {limit !== null && (
        <div className="meter-track" aria-hidden="true">
          <span style={{ width: `${share}%` }} />
        </div>
      )}
    </div>
  )
}

const LIMITS = [
  ['tokensPerDay', 'Tokens per day', 1],
  ['usdPerDay', 'US dollars per day', 'any'],
  ['tokensPerRoot', 'Tokens per request', 1],
  ['usdPerRoot', 'US dollars per request', 'any'],
] as const

function BudgetForm({ budget, save }: Pick<BudgetViewProps, 'budget' | 'save'>) {
  const [isSaved, setSaved] = useState(false)
  const saving = useDo(async (values: FormData) => {
    setSaved(false)
    await save(Object.fromEntries(LIMITS.map(([name]) => [name, numberIn(values, name)])))
    setSaved(true)
  })
  return (
    <Form label="Budget" submit="Set budget" isBusy={saving.isBusy} error={saving.error} onSubmit={saving.start}>
      <div className="columns">
        {LIMITS.map(([name, label, step]) => (
          <TextField
            key={name}
            label={label}
            name={name}
            type="number"
            min={0}
            step={step}
            defaultValue={budget?.[name] ?? ''}
            placeholder="no limit"
          />
        ))}
      </div>
      <p role="status" className="hint">
        {isSaved
          ? 'Saved. The budget applies at once.'
          : 'Days are UTC. A request is a message of a person, a firing of a plan or a call of a service, and everything it starts.'}
      </p>
    </Form>
  )
}

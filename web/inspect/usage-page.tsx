import { useState } from 'react'
import { Link } from 'wouter'
import type { ConsoleUsageQuery, UsageDimension } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { useWordsBelow } from '../operate/spaces-of-agents.ts'
import { PageHead } from '../shell/page-head.tsx'
import { Button } from '../ui/button.tsx'
import { wordsOfCost } from '../ui/cost.ts'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { USAGE } from './operations.ts'

type Row = NonNullable<ConsoleUsageQuery['usage']>[number]

const DAY_MS = 86_400_000
const SPANS = [7, 30, 90] as const
const DIMENSIONS: readonly (readonly [UsageDimension, string])[] = [
  ['AGENT', 'Agents'],
  ['SPACE', 'Spaces'],
  ['MODEL', 'Models'],
  ['HUMAN', 'People'],
]
const TITLES: Record<UsageDimension, string> = {
  AGENT: 'Agent',
  SPACE: 'Space',
  MODEL: 'Model',
  HUMAN: 'Person',
  DAY: 'Day',
}
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** Tokens and cost by day, and by agent, space, model or person. */
export function UsagePage() {
  const [days, setDays] = useState<number>(7)
  const [dimension, setDimension] = useState<UsageDimension>('AGENT')
  const today = new Date()
  today.setUTCHours(0, 0, 0, 0)
  const span = {
    from: new Date(today.getTime() - (days - 1) * DAY_MS).toISOString(),
    to: new Date(today.getTime() + DAY_MS).toISOString(),
  }
  return (
    <>
      <PageHead title="Usage" note="Tokens and cost of all model calls" />
      <div className="page-scroll">
        <fieldset className="chips" aria-label="Period">
          {SPANS.map((span) => (
            <Button key={span} aria-pressed={span === days} onClick={() => setDays(span)}>
              {span} days
            </Button>
          ))}
        </fieldset>
        <p className="hint">
          {SHORT_DAY.format(new Date(span.from))} to {SHORT_DAY.format(today)}, today included. Days begin at midnight
          UTC.
        </p>
        <ByDay span={span} days={days} />
        <fieldset className="chips" aria-label="Group by">
          {DIMENSIONS.map(([value, words]) => (
            <Button key={value} aria-pressed={value === dimension} onClick={() => setDimension(value)}>
              {words}
            </Button>
          ))}
        </fieldset>
        <ByThing span={span} dimension={dimension} />
      </div>
    </>
  )
}

type Span = { from: string; to: string }

function ByDay({ span, days }: { span: Span; days: number }) {
  const ask = useAsk(USAGE, { ...span, by: ['DAY'] })
  if (ask.data === undefined) return <Unanswered what="usage" ask={ask} />
  const rows = ask.data.usage ?? []
  const byDay = new Map(rows.map((row) => [row.day?.slice(0, 10), row]))
  const all = Array.from({ length: days }, (_, at) => new Date(Date.parse(span.from) + at * DAY_MS).toISOString())
  const most = Math.max(1, ...rows.map(tokensOf))
  const total = rows.reduce((sum, row) => sum + tokensOf(row), 0)
  const cost = rows.reduce((sum, { costUsd }) => sum + (costUsd ?? 0), 0)
  const isCostKnown = rows.every(({ costUsd }) => costUsd !== null)
  if (total === 0) {
    return (
      <Empty icon="chart" title="No usage in this period">
        <p>A model call is counted when it ends. Choose a longer period, or write to an agent in a space.</p>
      </Empty>
    )
  }
  return (
    <section className="block">
      <p className="usage-total">
        <b>{total.toLocaleString()}</b> tokens in {days} days{isCostKnown && `, ${wordsOfCost(cost)}`}
        {!isCostKnown && (
          <span className="note">
            {cost > 0 ? `, at least ${wordsOfCost(cost)}: ` : ', at unknown cost: '}
            some models have no price
          </span>
        )}
      </p>
      <ol className="bars" aria-label="Tokens by day">
        {all.map((day) => {
          const row = byDay.get(day.slice(0, 10))
          const tokens = row === undefined ? 0 : tokensOf(row)
          const words = `${SHORT_DAY.format(new Date(day))}: ${tokens.toLocaleString()} tokens, ${row?.runs ?? 0} runs`
          return (
            <li key={day} title={words}>
              <span className="bar" style={{ height: `${(tokens / most) * 100}%` }} />
              <span className="bar-day" aria-hidden="true">
                {SHORT_DAY.format(new Date(day))}
              </span>
              <span className="sr-only">{words}</span>
            </li>
          )
        })}
      </ol>
    </section>
  )
}

function ByThing({ span, dimension }: { span: Span; dimension: UsageDimension }) {
  const ask = useAsk(USAGE, { ...span, by: [dimension] })
  const [whole] = useAsk(USAGE, { ...span, by: [] }).data?.usage ?? []
  const below = useWordsBelow(
    (ask.data?.usage ?? []).flatMap(({ agent }) => (agent === null ? [] : [{ ...agent, kind: 'AGENT' }])),
  )
  if (ask.data === undefined) return <Unanswered what="usage" ask={ask} />
  const rows = (ask.data.usage ?? []).toSorted((one, other) => tokensOf(other) - tokensOf(one))
  const most = Math.max(1, ...rows.map(tokensOf))
  if (rows.length === 0) return null
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region */}
      <section className="table-scroller" tabIndex={0} aria-label="Usage">
        <table className="figures">
          <thead>
            <tr>
              <th scope="col">{TITLES[dimension]}</th>
              <th scope="col">Runs</th>
              <th scope="col">Cost</th>
              <th scope="col">Tokens in</th>
              <th scope="col">Cached</th>
              <th scope="col">Tokens out</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={(row.agent ?? row.space ?? row.human)?.id ?? nameOf(row, dimension)}>
                <th scope="row">
                  <Named row={row} dimension={dimension} below={row.agent === null ? '' : below(row.agent)} />
                  <span
                    className="share"
                    aria-hidden="true"
                    style={{ inlineSize: `${(tokensOf(row) / most) * 100}%` }}
                  />
                </th>
                <Figures row={row} />
              </tr>
            ))}
          </tbody>
          {whole !== undefined && (
            <tfoot>
              <tr>
                <th scope="row">Total</th>
                <Figures row={whole} />
              </tr>
            </tfoot>
          )}
        </table>
      </section>
      <dl className="legend">
        {COLUMNS.map(([name, meaning]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </>
  )
}

interface NamedProps {
  row: Row
  dimension: UsageDimension
  /** The spaces of an agent whose name is not unique. */
  below: string
}

/** The name of a row's object, with a link to its page. */
function Named({ row, dimension, below }: NamedProps) {
  const { agent, space, human } = row
  const name = nameOf(row, dimension)
  const href =
    agent !== null
      ? `/agents/${agent.id}`
      : space !== null
        ? `/spaces/${space.id}`
        : human !== null
          ? `/people/${human.id}`
          : null
  return (
    <>
      {href === null ? name : <Link href={href}>{name}</Link>}
      {below !== '' && <span className="note"> {below}</span>}
    </>
  )
}

const COLUMNS = [
  [
    'Runs',
    'How often agents ran. A run in which a persistent agent did nothing is not counted, but its tokens and cost are.',
  ],
  ['Cost', 'US dollars, by the price of the model on the day of the call. Set missing prices with PARLEY_PRICES.'],
  ['Tokens in', 'Text that the models read: instructions, messages and results of tools.'],
  ['Cached', 'Tokens in that the provider had cached, which cost less. Included in “Tokens in”.'],
  ['Tokens out', 'Text that the models wrote, including their reasoning.'],
] as const

function Figures({ row: { runs, costUsd, inputTokens, cachedInputTokens, outputTokens } }: { row: Row }) {
  return (
    <>
      <td>{runs.toLocaleString()}</td>
      <td>{costUsd === null ? 'no price' : wordsOfCost(costUsd)}</td>
      <td>{inputTokens.toLocaleString()}</td>
      <td>{cachedInputTokens.toLocaleString()}</td>
      <td>{outputTokens.toLocaleString()}</td>
    </>
  )
}

const tokensOf = ({ inputTokens, outputTokens }: Row) => inputTokens + outputTokens
const nameOf = ({ agent, space, model, human }: Row, dimension: UsageDimension) =>
  agent?.name ??
  space?.name ??
  model ??
  human?.name ??
  (dimension === 'HUMAN' ? 'nobody (plans and services)' : 'no space')

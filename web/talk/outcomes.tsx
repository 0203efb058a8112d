import { Popover } from '@base-ui/react/popover'
import { Link } from 'wouter'
import { type Message, payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused } from '../ui/notice.tsx'
import { useMessageVerbs } from './message-verbs.tsx'
import { RETRY_RUN } from './operations.ts'
import { ruleFor, type SpaceRule, wordsOfReason } from './routing-words.ts'

type Outcome = Message['outcomes'][number]

const WORDS: Record<string, string> = {
  RUN: 'woke',
  FAILED: 'failed',
  INBOX: 'will read this in the next think cycle',
  ANSWERED: 'was waiting for this answer',
  SKIPPED: 'read this and said nothing',
  NOT_ROUTED: 'was not woken',
  LOOP_LIMIT: 'was not woken: the limit of runs from one message was reached',
  DUPLICATE: 'had already been woken by this',
  PAUSED: 'is paused',
  OVER_BUDGET: 'was not woken: a budget is exhausted',
  DROPPED: 'left before reading this',
}
const ORDER = Object.keys(WORDS)

/** Returns the outcomes in the order of `WORDS`, so that agents that did something come first. */
const inOrder = (outcomes: readonly Outcome[]) =>
  outcomes.toSorted((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind))

/** Describes the outcome of the message for an agent. A persistent agent will read the message, is reading it, or has read it. */
function wordsOf({ kind, run }: Outcome): string {
  if (kind === 'INBOX' && run !== null) return run.status === 'COMPLETED' ? 'read this' : 'is reading this'
  return WORDS[kind] ?? kind.toLowerCase()
}

/** Explanations for viewers who may not see the recorded reason. */
const EXPLAINED: Record<string, string> = {
  RUN: 'The routing of this space chose this agent.',
  PAUSED: 'Nothing wakes a paused agent until an operator resumes it.',
  NOT_ROUTED: 'The routing of this space did not choose this agent.',
  LOOP_LIMIT:
    'The number of runs that one message can start, and their depth, are limited, so that agents do not wake each other forever.',
  DUPLICATE: 'A message wakes an agent at most once.',
  INBOX: 'This agent is persistent: the message waits in its inbox until the next think cycle.',
  OVER_BUDGET:
    'The budget of the agent, of the space or of the original trigger is exhausted. An operator can change it.',
  SKIPPED: 'The agent gave no reason that you may read.',
}

/**
 * The outcomes of a message: a summary line with details on request. A failure is shown in full if the agent was
 * mentioned, or if no other message shows the same failure in full.
 * @param repeated the ids of the agents whose failure another message shows, separated by spaces
 */
export function Outcomes({ message, repeated }: { message: Message; repeated: string }) {
  const { outcomes, mentions } = message
  const space = useMessageVerbs()
  const failed = outcomes.filter(
    ({ kind, agent }) =>
      kind === 'FAILED' && (!repeated.includes(agent.id) || mentions.some(({ id }) => id === agent.id)),
  )
  if (outcomes.length === 0) return null
  return (
    <div className="outcomes">
      {failed.map((outcome) => (
        <Failure key={outcome.agent.id} outcome={outcome} />
      ))}
      <OverBudget outcomes={outcomes.filter(({ kind }) => kind === 'OVER_BUDGET')} />
      <Popover.Root>
        <Popover.Trigger className="outcomes-line">
          <span className="sr-only">Which agents woke? </span>
          {summaryOf(outcomes)}
          <Icon name="chevron" size={12} />
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Positioner sideOffset={4} align="start" className="positioner">
            <Popover.Popup className="popover">
              <Popover.Title className="popover-title">Which agents woke, and why</Popover.Title>
              <OutcomeList message={message} space={space} withRetry />
            </Popover.Popup>
          </Popover.Positioner>
        </Popover.Portal>
      </Popover.Root>
    </div>
  )
}

interface OutcomeListProps {
  message: RoutedMessage
  /** The rule of the space; null if it is not known. */
  space: SpaceRule | null
  /** Whether to show why each agent was woken, too, if its recorded reason only says what the agent did. */
  withRule?: boolean
  /** Also offers to retry failed runs. */
  withRetry?: boolean
}

type RoutedMessage = Pick<Message, 'outcomes'> & Parameters<typeof ruleFor>[1]

/** The outcomes of a message for all agents, each with its reason. */
export function OutcomeList({ message, space, withRule = false, withRetry = false }: OutcomeListProps) {
  return (
    <ul className="outcome-list">
      {groupsOf(message, space).map((group) => (
        <OutcomeLine
          key={group.outcomes[0].agent.id}
          {...group}
          withRetry={withRetry}
          rule={
            withRule && space !== null && READ.includes(group.outcomes[0].kind)
              ? ruleFor(group.outcomes[0].agent.id, message, space)
              : null
          }
        />
      ))}
    </ul>
  )
}

/** Agents with the same outcome for the same reason. */
interface Group {
  outcomes: [Outcome, ...Outcome[]]
  why: string | undefined
}

/** Outcomes that depend only on the rule of the space. */
const RULED: readonly Outcome['kind'][] = ['RUN', 'NOT_ROUTED']
/** Outcomes of agents that were woken by the rule, but whose reason is about something else. */
const READ: readonly Outcome['kind'][] = ['SKIPPED', 'FAILED']

/** Up to three agents have a line each. If more have the same outcome, they share a line. */
function groupsOf(message: RoutedMessage, space: SpaceRule | null): Group[] {
  const outcomes = inOrder(message.outcomes)
  const whyOf = ({ agent, kind, reason }: Outcome) => {
    if (reason !== null) return kind === 'SKIPPED' ? `Its reason: ${reason}` : wordsOfReason(reason)
    return RULED.includes(kind) && space !== null ? ruleFor(agent.id, message, space) : EXPLAINED[kind]
  }
  const alike = Map.groupBy(outcomes, (outcome) => `${wordsOf(outcome)} ${whyOf(outcome)} ${outcome.error}`)
  return [...alike.values()].flatMap((of) =>
    (of.length > 3 ? [of] : of.map((one) => [one])).map((some) => {
      const [first, ...rest] = some as Group['outcomes']
      return { outcomes: [first, ...rest] as Group['outcomes'], why: whyOf(first) }
    }),
  )
}

function OutcomeLine({ outcomes, why, rule, withRetry }: Group & { rule: string | null; withRetry: boolean }) {
  const [outcome] = outcomes
  const { agent, error } = outcome
  const run = outcomes.length === 1 ? outcome.run : null
  const words = wordsOf(outcome)
  return (
    <li>
      <Avatar entity={{ ...agent, kind: 'AGENT' }} size={24} />
      <div>
        {outcomes.length === 1 ? (
          <p>
            <strong>{agent.name}</strong> {words}
          </p>
        ) : (
          <p title={outcomes.map((one) => one.agent.name).join(', ')}>
            <strong>{outcomes.length} agents</strong> {plural(words)}
          </p>
        )}
        {rule !== null && rule !== why && <p className="why">Why it woke: {rule}</p>}
        {why && <p className="why">{why}</p>}
        {error !== null && <p className="why bad">{error}</p>}
        {run !== null && withRetry && outcome.kind === 'FAILED' && <Retry runId={run.id} />}
        {run !== null && <Link href={`/runs/${run.id}`}>Open its run</Link>}
      </div>
    </li>
  )
}

/** Returns a summary such as `Iris woke · 2 agents were not woken`. */
function summaryOf(outcomes: readonly Outcome[]): string {
  const kinds = Map.groupBy(inOrder(outcomes), wordsOf)
  const lines = [...kinds].map(([words, of]) => {
    const names = of.map(({ agent }) => agent.name)
    if (names.length <= 2) return `${names.join(' and ')} ${of.length === 2 ? plural(words) : words}`
    return `${names.length} agents ${plural(words)}`
  })
  return lines.join(' · ')
}

const plural = (words: string) =>
  words.replace(/^was /, 'were ').replace(/^is /, 'are ').replace(/^has /, 'have ').replaceAll(' it ', ' they ')

/** The agents that did not wake because of an exhausted budget, with links to the budgets for an operator. */
function OverBudget({ outcomes }: { outcomes: readonly Outcome[] }) {
  const { isAdmin } = useSession()
  if (outcomes.length === 0) return null
  const reasons = [...new Set(outcomes.map(({ reason }) => reason ?? 'A budget is exhausted.'))]
  return (
    <div className="over-budget">
      <Icon name="chart" size={16} />
      <p>
        <strong>{outcomes.map(({ agent }) => agent.name).join(' and ')} could not be woken.</strong> {reasons.join(' ')}{' '}
        {isAdmin &&
          outcomes.map(({ agent }) => (
            <Link key={agent.id} href={`/agents/${agent.id}/settings`}>
              {agent.name}’s budget{' '}
            </Link>
          ))}
      </p>
    </div>
  )
}

function Failure({ outcome: { agent, error, run } }: { outcome: Outcome }) {
  const { isAdmin } = useSession()
  return (
    <div className="failure">
      <p>
        <strong>{agent.name} could not answer.</strong> {error}
      </p>
      {run !== null && (
        <div className="failure-verbs">
          <Retry runId={run.id} />
          <Link href={`/runs/${run.id}`}>Open its run</Link>
          {isAdmin && <Link href="/models">Open Models</Link>}
        </div>
      )}
    </div>
  )
}

function Retry({ runId }: { runId: string }) {
  const { connection } = useSession()
  const retry = useDo(async (_: null) =>
    payloadOf((await connection.ask(RETRY_RUN, { runId })).retryRun, 'RetryRunPayload'),
  )
  return (
    <>
      <Button icon="retry" onClick={() => retry.start(null)} isBusy={retry.isBusy}>
        Retry
      </Button>
      <Refused error={retry.error} />
    </>
  )
}

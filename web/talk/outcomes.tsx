import { Popover } from '@base-ui/react/popover'
import { Link } from 'wouter'
import { type Message, payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused } from '../ui/notice.tsx'
import { RETRY_RUN } from './operations.ts'

type Outcome = Message['outcomes'][number]

const WORDS: Record<string, string> = {
  RUN: 'woke',
  INBOX: 'will read it when it thinks next',
  SKIPPED: 'read it and had nothing to say',
  ANSWERED: 'was waiting for this answer',
  NOT_ROUTED: 'was not asked',
  LOOP_LIMIT: 'was not woken: the chain had reached its limit',
  DUPLICATE: 'had been woken by it before',
  PAUSED: 'is paused',
  OVER_BUDGET: 'was not woken: a budget is spent',
  DROPPED: 'left before it had read it',
  FAILED: 'failed',
}

/** For those who are not told the reason itself, which is for operators. */
const EXPLAINED: Record<string, string> = {
  RUN: 'The routing of this space had it hear this.',
  PAUSED: 'Nothing wakes it until an operator lets it go on.',
  NOT_ROUTED: 'The routing of this space chose somebody else for this message.',
  LOOP_LIMIT:
    'Agents that wake one another are stopped at a depth and a number of runs, so that they do not go on for ever.',
  DUPLICATE: 'A message wakes an agent once at most.',
  INBOX: 'It keeps a mind of its own: what concerns it waits in its inbox until it thinks next.',
  OVER_BUDGET: 'What its agent, its space or what began it may use was used up. An operator sets how much that is.',
  SKIPPED: 'It was shown the message and decided to say nothing.',
}

/** Who woke from a message, who did not, and why: in a line, and whole when one asks. Whom it failed for is said at once. */
export function Outcomes({ message }: { message: Message }) {
  const { outcomes } = message
  const failed = outcomes.filter(({ kind }) => kind === 'FAILED')
  if (outcomes.length === 0) return null
  return (
    <div className="outcomes">
      {failed.map((outcome) => (
        <Failure key={outcome.agent.id} outcome={outcome} />
      ))}
      <OverBudget outcomes={outcomes.filter(({ kind }) => kind === 'OVER_BUDGET')} />
      <Popover.Root>
        <Popover.Trigger className="outcomes-line">
          <span className="sr-only">Who woke? </span>
          {summaryOf(outcomes)}
          <Icon name="chevron" size={12} />
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Positioner sideOffset={4} align="start" className="positioner">
            <Popover.Popup className="popover">
              <Popover.Title className="popover-title">Who woke, and why</Popover.Title>
              <ul className="outcome-list">
                {outcomes.map((outcome) => (
                  <OutcomeLine
                    key={outcome.agent.id}
                    outcome={outcome}
                    isMentioned={message.mentionedAgent?.id === outcome.agent.id}
                  />
                ))}
              </ul>
            </Popover.Popup>
          </Popover.Positioner>
        </Popover.Portal>
      </Popover.Root>
    </div>
  )
}

function OutcomeLine({ outcome, isMentioned }: { outcome: Outcome; isMentioned: boolean }) {
  const { agent, kind, reason, error, run } = outcome
  const why = reason ?? (kind === 'RUN' && isMentioned ? 'This agent was mentioned.' : EXPLAINED[kind])
  return (
    <li>
      <Avatar entity={{ ...agent, kind: 'AGENT' }} size={24} />
      <div>
        <p>
          <strong>{agent.name}</strong> {WORDS[kind] ?? kind.toLowerCase()}
        </p>
        {why && <p className="why">{why}</p>}
        {error !== null && <p className="why bad">{error}</p>}
        {run !== null && <Link href={`/runs/${run.id}`}>Look inside its run</Link>}
      </div>
    </li>
  )
}

/** `Iris woke · 2 others were not asked`. */
function summaryOf(outcomes: readonly Outcome[]): string {
  const kinds = Map.groupBy(outcomes, ({ kind }) => kind)
  const lines = [...kinds].map(([kind, of]) => {
    const words = WORDS[kind] ?? kind.toLowerCase()
    const names = of.map(({ agent }) => agent.name)
    if (names.length <= 2) return `${names.join(' and ')} ${of.length === 2 ? plural(words) : words}`
    return `${names.length} agents ${plural(words)}`
  })
  return lines.join(' · ')
}

const plural = (words: string) =>
  words.replace(/^was /, 'were ').replace(/^is /, 'are ').replace(/^has /, 'have ').replaceAll(' it ', ' they ')

/** Whom a spent budget kept asleep, and for an operator whose budget that is. */
function OverBudget({ outcomes }: { outcomes: readonly Outcome[] }) {
  const { isAdmin } = useSession()
  if (outcomes.length === 0) return null
  const reasons = [...new Set(outcomes.map(({ reason }) => reason ?? 'A budget is spent.'))]
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
  const { connection } = useSession()
  const retry = useDo(async (runId: string) =>
    payloadOf((await connection.ask(RETRY_RUN, { runId })).retryRun, 'RetryRunPayload'),
  )
  return (
    <div className="failure">
      <p>
        <strong>{agent.name} could not answer.</strong> {error}
      </p>
      {run !== null && (
        <div className="failure-verbs">
          <Button icon="retry" onClick={() => retry.start(run.id)} isBusy={retry.isBusy}>
            Retry
          </Button>
          <Link href={`/runs/${run.id}`}>Look inside</Link>
        </div>
      )}
      <Refused error={retry.error} />
    </div>
  )
}

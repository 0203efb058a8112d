import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from 'react'
import { payloadOf, type ToolCall, type WaitingCall } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { isSameJson } from '../ui/json-text.ts'
import { Loading, Refused } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { type Decision, Decisions } from './decisions.tsx'
import { InputForm } from './input-form.tsx'
import { OnlyInPerson } from './only-in-person.tsx'
import { CLAIM_TOOL_CALL, DECIDE_TOOL_CALL, GRANTS } from './operations.ts'

// Opened by a click, so these components are not part of the first load.
const DecideAlike = lazy(() => import('./decide-alike.tsx').then(({ DecideAlike: form }) => ({ default: form })))
const GrantForm = lazy(() => import('./grant-form.tsx').then(({ GrantForm: form }) => ({ default: form })))

type Approval = NonNullable<ToolCall['approval']>

interface Deciding {
  isBusy: boolean
  error: ReturnType<typeof useDo>['error']
  start(choice: { approve: boolean }): void
}

/** The approval of a call: its state, its decisions, and a form for viewers who may decide. */
export function ApprovalView({ call }: { call: ToolCall }) {
  const { approval, authorization } = call
  const { actingUntil } = useSession()
  if (approval === null) return null
  const { state, decisions, mayDecide } = approval
  const progress = wordsOfProgress(approval)
  const isDeciding = state === 'PENDING' && mayDecide
  return (
    <div className="approval">
      {state === 'PENDING' && authorization !== null && <p className="note">{authorization.text}</p>}
      {state === 'PENDING' && authorization === null && progress !== '' && <p className="note">{progress}</p>}
      <Decisions decisions={decisions} addition={(decision) => <Allowed call={call} decision={decision} />} />
      <Consequence call={call} />
      {isDeciding && actingUntil !== null && <OnlyInPerson verb="decide" />}
      {isDeciding && actingUntil === null && <DecideForm call={call} approval={approval} />}
    </div>
  )
}

const NOT_EXECUTED: Record<string, string> = {
  DENIED: 'The call was not executed, and the agent knows why.',
  EXPIRED: 'Nobody decided in time, so the call was not executed.',
  CANCELED: 'The run ended before a decision, so the call was not executed.',
}

const AFTER_APPROVAL: Record<string, string> = {
  RUNNING: 'The call is being executed.',
  WAITING: 'The call was started and waits for its result.',
  DONE: 'The call was executed.',
  FAILED: 'The call was executed and failed.',
  TIMED_OUT: 'The call was executed, but no result came in time.',
  CANCELED: 'The call was canceled before it finished.',
}

/** The effect of the decision. */
function Consequence({ call: { approval, status, settledAt } }: { call: ToolCall }) {
  if (approval === null || approval.state === 'PENDING') return null
  const isApproved = approval.state === 'APPROVED'
  const words = isApproved ? AFTER_APPROVAL[status] : NOT_EXECUTED[approval.state]
  if (words === undefined) return null
  const isActive = isApproved && (status === 'RUNNING' || status === 'WAITING')
  const look = isActive ? '' : status === 'DONE' ? 'good' : 'bad'
  return (
    <p className="consequence">
      <span className={look}>
        <Icon name={isActive ? 'clock' : status === 'DONE' ? 'check' : 'cross'} size={14} />
      </span>
      <span className="grow">{words}</span>
      {settledAt !== null && !isActive && <Moment at={settledAt} />}
    </p>
  )
}

/**
 * Returns words such as `1 of 2 approvals, requested from Bob, escalated`. Does not mention the count if one approval is
 * enough.
 */
function wordsOfProgress({ decisions, quorum, approvers, mayDecide, escalatedAt }: Approval): string {
  const approved = decisions.filter(({ approve, counts }) => approve && counts).length
  const words = [
    quorum === 1 ? null : `${approved} of ${quorum} approvals`,
    mayDecide || approvers.length === 0 ? null : `requested from ${approvers.map(({ name }) => name).join(', ')}`,
    escalatedAt === null ? null : 'escalated',
  ]
  const text = words.filter((word) => word !== null).join(', ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** A grant and the decision that proposed it are written in one transaction. */
const MOST_BETWEEN_MS = 1000
const LONGEST_GRANT_MS = 30 * 86_400_000

/** The standing grant that was proposed with a decision on this call, in words. */
function Allowed({ call, decision: { human, approve, counts, at } }: { call: ToolCall; decision: Decision }) {
  const mayHaveGrant = approve && counts && Date.now() - Date.parse(at) < LONGEST_GRANT_MS
  const { data } = useAsk(GRANTS, { agentId: call.agent.id, spaceId: null }, { enabled: mayHaveGrant })
  const grant = data?.standingGrants.find(({ toolName, proposedBy, decisions, state }) => {
    const proposedMs = Date.parse(decisions[0]?.at ?? '') - Date.parse(at)
    const isLive = state === 'ACTIVE' || state === 'PENDING'
    const isOfCall = toolName === call.toolName && proposedBy.id === human.id
    return isLive && isOfCall && proposedMs >= 0 && proposedMs < MOST_BETWEEN_MS
  })
  if (grant === undefined) return null
  return (
    <>
      {grant.state === 'ACTIVE' ? ' and allows ' : ' and proposes to allow '}
      {grant.maxCalls ?? 'any number of'} more until <Moment at={grant.expiresAt} />
    </>
  )
}

/** Shows the link of a person who must connect their account. The person connects on a separate page, but can deny here. */
function Connect({ url, decide }: { url: string; decide: Deciding }) {
  return (
    <div className="decide">
      <a className="button primary" href={url} target="_blank" rel="noreferrer">
        Connect
      </a>
      <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start({ approve: false })}>
        Deny
      </Button>
      <Refused error={decide.error} />
    </div>
  )
}

function DecideForm({ call, approval }: { call: ToolCall; approval: Approval }) {
  const { connection, viewer } = useSession()
  const [reason, setReason] = useState('')
  // The edited input, with the digest from when editing began, so that a concurrent edit causes a conflict.
  const [edited, setEdited] = useState<{ input: unknown; inputDigest: string } | null>(null)
  const decide = useDo(async (choice: { approve: boolean; input?: unknown }) => {
    const { inputDigest } = edited ?? approval
    const input = { toolCallId: call.id, inputDigest, reason: reason.trim() || null, ...choice }
    payloadOf((await connection.ask(DECIDE_TOOL_CALL, { input })).decideToolCall, 'DecideToolCallPayload')
    setEdited(null)
  })
  const url = call.authorization?.url ?? null
  const [mode, setMode] = useState<'ONE' | 'ALL' | 'GRANT'>('ONE')
  const alike = callsLike(call, viewer.pendingToolCalls)
  const schema = call.inputSchema
  const back = () => setMode('ONE')
  const deny = (
    <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start({ approve: false })}>
      Deny
    </Button>
  )
  if (url !== null) return <Connect url={url} decide={decide} />
  if (mode !== 'ONE')
    return (
      <Editing className={mode === 'GRANT' ? 'editing' : 'alike'} onBack={back}>
        <Suspense fallback={<Loading what="the form" />}>
          {mode === 'GRANT' ? <GrantForm call={call} onBack={back} /> : <DecideAlike calls={alike} onBack={back} />}
        </Suspense>
      </Editing>
    )
  if (edited !== null && typeof schema === 'object' && schema !== null) {
    return (
      <Editing className="editing" onBack={() => setEdited(null)}>
        <InputForm
          label={`Edit the input of ${call.toolName}`}
          schema={schema as Record<string, unknown>}
          value={edited.input}
          submit="Approve this"
          isBusy={decide.isBusy}
          error={decide.error}
          onSubmit={(input) => decide.start({ approve: true, input })}
          onBack={() => setEdited(null)}
          button={deny}
        >
          <ReasonField reason={reason} onReason={setReason} />
        </InputForm>
      </Editing>
    )
  }
  return (
    <div className="decide-form">
      <div className="decide">
        <Button look="primary" icon="check" isBusy={decide.isBusy} onClick={() => decide.start({ approve: true })}>
          Approve
        </Button>
        {deny}
      </div>
      <ReasonField reason={reason} onReason={setReason} />
      <div className="decide-others">
        {schema !== null && (
          <Button look="quiet" onClick={() => setEdited({ input: call.input, inputDigest: approval.inputDigest })}>
            Edit first…
          </Button>
        )}
        <Button look="quiet" onClick={() => setMode('GRANT')}>
          Allow calls like this…
        </Button>
        {alike.length > 1 && (
          <Button look="quiet" onClick={() => setMode('ALL')}>
            Decide on all {alike.length} like this…
          </Button>
        )}
        <Claim call={call} />
      </div>
      <p className="note">
        If you approve the call, it is executed. If you deny it, the agent continues without the result.
      </p>
      <Refused error={decide.error} />
    </div>
  )
}

/** Returns the waiting calls of the same tool by the same agent on which the viewer may decide. */
function callsLike(
  call: { id: string; toolName: string; agent: { id: string } },
  waiting: readonly WaitingCall[],
): WaitingCall[] {
  return waiting.filter(
    ({ toolName, agent, approval }) =>
      toolName === call.toolName && agent.id === call.agent.id && approval?.mayDecide === true,
  )
}

/** Takes the focus when it opens, because the button that opened it no longer exists. Escape closes it. */
function Editing({ className, onBack, children }: { className: string; onBack(): void; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => box.current?.focus(), [])
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape in any of the fields closes the box
    <div
      ref={box}
      tabIndex={-1}
      className={className}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // Keep Escape from also closing an open thread.
        event.preventDefault()
        onBack()
      }}
    >
      {children}
    </div>
  )
}

function ReasonField({ reason, onReason }: { reason: string; onReason(reason: string): void }) {
  return (
    <input
      className="reason"
      aria-label="Reason"
      placeholder="Reason for the agent (optional)"
      value={reason}
      onChange={(event) => onReason(event.target.value)}
    />
  )
}

/** Claims a call, so that two people do not handle it at once. */
export function Claim({ call }: { call: ToolCall }) {
  const { connection, humanId, actingUntil } = useSession()
  const claim = useDo(async (release: boolean) => {
    const made = await connection.ask(CLAIM_TOOL_CALL, { input: { toolCallId: call.id, release } })
    payloadOf(made.claimToolCall, 'ClaimToolCallPayload')
  })
  const { claimedBy } = call
  if (humanId === null || actingUntil !== null) return null
  if (claimedBy !== null && claimedBy.id !== humanId) return null
  return (
    <>
      <Button look="quiet" isBusy={claim.isBusy} onClick={() => claim.start(claimedBy !== null)}>
        {claimedBy === null ? 'I’ll handle this' : 'Release'}
      </Button>
      <Refused error={claim.error} />
    </>
  )
}

/** Shows that another person has claimed a call. */
export function ClaimedByOther({ call: { claimedBy } }: { call: ToolCall }) {
  const { humanId } = useSession()
  if (humanId === null || claimedBy === null || claimedBy.id === humanId) return null
  return <p className="note">{claimedBy.name} is handling this.</p>
}

/** Shows who answered, if somebody did. */
export function AnsweredBy({ call }: { call: ToolCall }) {
  const { answeredBy, answeredByService, settledAt } = call
  const name = answeredBy?.name ?? answeredByService
  if (name == null || settledAt === null) return null
  return (
    <p className="note">
      {VERDICTS[verdictOf(call) ?? 'NONE']} by <b>{name}</b> at <Moment at={settledAt} />
    </p>
  )
}

const VERDICTS = { APPROVED: 'Approved', DENIED: 'Denied', NONE: 'Answered' }

/** Returns the verdict of an answer that is only yes or no; null for any other call. */
export function verdictOf({ output, answeredBy }: ToolCall): 'APPROVED' | 'DENIED' | null {
  if (answeredBy === null) return null
  if (isSameJson(output, { approved: true })) return 'APPROVED'
  return isSameJson(output, { approved: false }) ? 'DENIED' : null
}

const UNAPPROVED = ['PENDING', 'DENIED', 'EXPIRED', 'CANCELED']

/** Returns the single state of a call to show: the state of its approval until it is approved, and then the call's own status. */
export function stateOf(call: ToolCall): string {
  const { approval, status } = call
  if (approval !== null && UNAPPROVED.includes(approval.state)) {
    return approval.state === 'PENDING' ? 'NEEDS_APPROVAL' : approval.state
  }
  return verdictOf(call) ?? status
}

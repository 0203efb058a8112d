import { type ReactNode, useEffect, useRef, useState } from 'react'
import { payloadOf, type ToolCall } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { isSameJson } from '../ui/json-text.ts'
import { Refused } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { callsLike, DecideAlike } from './decide-alike.tsx'
import { Decisions } from './decisions.tsx'
import { GrantForm } from './grant-form.tsx'
import { InputForm } from './input-form.tsx'
import { CLAIM_TOOL_CALL, DECIDE_TOOL_CALL } from './operations.ts'

type Approval = NonNullable<ToolCall['approval']>

interface Deciding {
  isBusy: boolean
  error: ReturnType<typeof useDo>['error']
  start(choice: { approve: boolean }): void
}

/** The approval of a call: its state, its decisions, and a form for viewers who may decide. */
export function ApprovalView({ call }: { call: ToolCall }) {
  const { approval, authorization } = call
  if (approval === null) return null
  const { state, decisions, quorum, approvers, mayDecide } = approval
  const approved = decisions.filter(({ approve, counts }) => approve && counts).length
  return (
    <div className="approval">
      {authorization !== null && <p className="note">{authorization.text}</p>}
      {state === 'PENDING' && authorization === null && (
        <p className="note">
          {approved} of {quorum} {quorum === 1 ? 'approval' : 'approvals'}
          {!mayDecide && approvers.length > 0 && `, requested from ${approvers.map(({ name }) => name).join(', ')}`}
          {approval.escalatedAt !== null && ', escalated'}
        </p>
      )}
      <Decisions decisions={decisions} />
      {state === 'PENDING' && mayDecide && <DecideForm call={call} approval={approval} />}
    </div>
  )
}

/** The person connects on a separate page; here they can only refuse. */
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
  if (url !== null) return <Connect url={url} decide={decide} />
  if (mode === 'GRANT') return <GrantForm call={call} onBack={back} />
  if (mode === 'ALL') return <DecideAlike calls={alike} onBack={back} />
  if (edited !== null && typeof schema === 'object' && schema !== null) {
    return (
      <Editing onBack={() => setEdited(null)}>
        <div className="decide">
          <ReasonField reason={reason} onReason={setReason} />
          <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start({ approve: false })}>
            Deny
          </Button>
        </div>
        <InputForm
          label={`Edit the input of ${call.toolName}`}
          schema={schema as Record<string, unknown>}
          value={edited.input}
          submit="Approve this"
          isBusy={decide.isBusy}
          error={decide.error}
          onSubmit={(input) => decide.start({ approve: true, input })}
          onBack={() => setEdited(null)}
        />
      </Editing>
    )
  }
  return (
    <div className="decide">
      <ReasonField reason={reason} onReason={setReason} />
      <Button look="primary" icon="check" isBusy={decide.isBusy} onClick={() => decide.start({ approve: true })}>
        Approve
      </Button>
      <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start({ approve: false })}>
        Deny
      </Button>
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
          Decide all {alike.length} like this…
        </Button>
      )}
      <Refused error={decide.error} />
    </div>
  )
}

/** Has the focus when it opens: the button that opened it no longer exists, and Escape returns. */
function Editing({ onBack, children }: { onBack(): void; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => box.current?.focus(), [])
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape in any of its fields goes back
    <div
      ref={box}
      tabIndex={-1}
      className="editing"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // An open thread would close with the same key.
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
      aria-label="Reason"
      placeholder="Reason (optional)"
      value={reason}
      onChange={(event) => onReason(event.target.value)}
    />
  )
}

/** Claims a call, so that two people do not handle it at once. */
export function Claim({ call }: { call: ToolCall }) {
  const { connection, humanId } = useSession()
  const claim = useDo(async (release: boolean) => {
    const made = await connection.ask(CLAIM_TOOL_CALL, { input: { toolCallId: call.id, release } })
    payloadOf(made.claimToolCall, 'ClaimToolCallPayload')
  })
  if (humanId === null) return null
  const { claimedBy } = call
  if (claimedBy !== null && claimedBy.id !== humanId) return <p className="note">{claimedBy.name} is handling this.</p>
  const mayAnswer = call.waitsFor === 'RESULT' || call.approval?.mayDecide === true
  if (!mayAnswer) return null
  return (
    <div className="decide">
      <Button look="quiet" icon="people" isBusy={claim.isBusy} onClick={() => claim.start(claimedBy !== null)}>
        {claimedBy === null ? 'I’ll handle this' : 'Release'}
      </Button>
      <Refused error={claim.error} />
    </div>
  )
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

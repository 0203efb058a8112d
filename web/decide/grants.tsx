import { useState } from 'react'
import { Link } from 'wouter'
import { payloadOf, type ToolCall } from '../../client/index.ts'
import type { ConsoleGrantFragment } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Json } from '../ui/json.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { Status } from '../ui/status.tsx'
import { Moment } from '../ui/time.tsx'
import { Decisions } from './decisions.tsx'
import { wordsOfSchema } from './grant-bounds.ts'
import { OnlyInPerson } from './only-in-person.tsx'
import { DECIDE_GRANT, GRANT_OF_CALL, REVOKE_GRANT } from './operations.ts'
import { wordsOfName } from './property-titles.ts'
import { useGrants } from './use-grants.ts'

const isLive = ({ state }: ConsoleGrantFragment) => state === 'ACTIVE' || state === 'PENDING'

interface GrantsProps {
  spaceId?: string | null
  agentId?: string | null
  /** The level of the heading. */
  heading?: 'h2' | 'h3'
}

/** The standing grants of a space or an agent: active and proposed ones, and the others on request. */
export function Grants({ spaceId = null, agentId = null, heading: Heading = 'h3' }: GrantsProps) {
  const ask = useGrants({ spaceId, agentId })
  const grants = ask.data?.standingGrants ?? []
  const ended = grants.filter((grant) => !isLive(grant))
  return (
    <section className="block" aria-label="Standing grants">
      <Heading>Standing grants</Heading>
      {ask.data === undefined && <Unanswered what="the standing grants" ask={ask} />}
      {ask.data !== undefined && grants.every((grant) => !isLive(grant)) && (
        <p className="hint">
          No standing grants. A standing grant lets an agent call a tool without asking, within limits that you set.
          Create one with “Allow calls like this…” on a call that waits for approval.
        </p>
      )}
      <ul className="grants">
        {grants.filter(isLive).map((grant) => (
          <GrantView key={grant.id} grant={grant} />
        ))}
      </ul>
      {ended.length > 0 && (
        <details>
          <summary>{ended.length} ended</summary>
          <ul className="grants">
            {ended.map((grant) => (
              <GrantView key={grant.id} grant={grant} />
            ))}
          </ul>
        </details>
      )}
    </section>
  )
}

/** Proposed grants on which the viewer may decide. */
export function GrantsToDecide() {
  const { data } = useGrants({ agentId: null, spaceId: null })
  const proposed = (data?.standingGrants ?? []).filter(({ mayDecide }) => mayDecide)
  if (proposed.length === 0) return null
  return (
    <section className="block" aria-label="Proposed standing grants">
      <h2>Proposed standing grants</h2>
      <ul className="grants">
        {proposed.map((grant) => (
          <GrantView key={grant.id} grant={grant} />
        ))}
      </ul>
    </section>
  )
}

/** Shown for a call that was executed under a grant. Shows the grant on request. */
export function GrantOfCall({ call }: { call: ToolCall }) {
  const [isOpen, setOpen] = useState(false)
  const { data } = useAsk(GRANT_OF_CALL, { id: call.id }, { enabled: isOpen })
  if (call.grant === null) return null
  const grant = data?.node?.__typename === 'ToolCall' ? data.node.grant : null
  return (
    <div className="grant-of-call">
      <p className="note">
        Executed without approval, under a standing grant by <b>{call.grant.proposedBy.name}</b>.{' '}
        <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide the grant' : 'Show the grant'}
        </Button>
      </p>
      {isOpen && grant && (
        <ul className="grants">
          <GrantView grant={grant} />
        </ul>
      )}
    </div>
  )
}

function GrantView({ grant }: { grant: ConsoleGrantFragment }) {
  const { agent, toolName, space, state, quorum, decisions, mayDecide, proposedBy, revokedBy } = grant
  const { actingUntil } = useSession()
  const approvals = decisions.filter(({ approve, counts }) => approve && counts).length
  return (
    <li className="grant" aria-label={`Standing grant for ${toolName}`}>
      <header>
        <b title={toolName}>{wordsOfName(toolName)}</b>
        <span className="grow">
          by <Link href={`/agents/${agent.id}`}>{agent.name}</Link>
          {space !== null && (
            <>
              {' '}
              in <Link href={`/spaces/${space.id}`}>{space.name}</Link>
            </>
          )}
        </span>
        <Status of={state === 'ACTIVE' ? 'GRANTED' : state} />
      </header>
      <GrantBounds grant={grant} />
      <p className="note">
        Proposed by {proposedBy.name}
        {state === 'PENDING' && `, ${approvals} of ${quorum} approvals`}
        {state === 'REVOKED' && `, revoked by ${revokedBy?.name ?? 'an admin'}`}
        {isLive(grant) && (
          <>
            , until <Moment at={grant.expiresAt} />
          </>
        )}
      </p>
      {decisions.length > 1 && <Decisions decisions={decisions} />}
      {mayDecide && actingUntil !== null && <OnlyInPerson verb="decide" />}
      {mayDecide && actingUntil === null && <DecideGrant grant={grant} />}
      {isLive(grant) && actingUntil === null && <Revoke grant={grant} />}
    </li>
  )
}

function GrantBounds({ grant }: { grant: ConsoleGrantFragment }) {
  const { inputSchema, maxCalls, usedCalls, amountProperty, maxAmount, usedAmount } = grant
  const limits = wordsOfSchema(inputSchema)
  return (
    <>
      <ul className="grant-bounds">
        {limits?.map((words) => (
          <li key={words}>{words}</li>
        ))}
        <li>{maxCalls === null ? `${usedCalls} calls so far` : `${usedCalls} of ${maxCalls} calls`}</li>
        {maxAmount !== null && (
          <li>
            {usedAmount} of {maxAmount} {wordsOfName(amountProperty ?? '')}
          </li>
        )}
      </ul>
      {limits === null && <Json label="Input" value={inputSchema} />}
    </>
  )
}

function DecideGrant({ grant: { id } }: { grant: ConsoleGrantFragment }) {
  const { connection } = useSession()
  const [reason, setReason] = useState('')
  const decide = useDo(async (approve: boolean) => {
    const input = { id, approve, reason: reason.trim() || null }
    payloadOf((await connection.ask(DECIDE_GRANT, { input })).decideStandingGrant, 'DecideStandingGrantPayload')
  })
  return (
    <div className="decide">
      <input
        aria-label="Reason"
        placeholder="Reason (optional)"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      <Button look="primary" icon="check" isBusy={decide.isBusy} onClick={() => decide.start(true)}>
        Approve the grant
      </Button>
      <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start(false)}>
        Deny the grant
      </Button>
      <Refused error={decide.error} />
    </div>
  )
}

function Revoke({ grant: { id, agent, toolName, state } }: { grant: ConsoleGrantFragment }) {
  const { connection } = useSession()
  const revoke = useDo(async (_: null) => {
    payloadOf((await connection.ask(REVOKE_GRANT, { id })).revokeStandingGrant, 'RevokeStandingGrantPayload')
  })
  return (
    <div className="decide">
      <AskFirst
        title={state === 'ACTIVE' ? 'Revoke this grant?' : 'Withdraw this proposal?'}
        submit="Revoke"
        isBusy={revoke.isBusy}
        error={revoke.error}
        onConfirm={(close) => revoke.start(null, close)}
        button={(ask) => (
          <Button look="danger" onClick={ask}>
            Revoke
          </Button>
        )}
      >
        <p>
          From now on, each call to “{wordsOfName(toolName)}” by {agent.name} needs approval again. A revoked grant
          cannot be restored, but you can propose a new one when the next call waits for approval.
        </p>
      </AskFirst>
    </div>
  )
}

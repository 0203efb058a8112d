import { type ParleyError, payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { CheckField, Form } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { HeaderFields, headersIn } from './header-fields.tsx'
import { policyInputOf } from './policy-input.ts'
import { CONFIRM_AGENT_CARD } from './tool-operations.ts'

export type Remote = NonNullable<NonNullable<ConsoleAgentSettingsFragment['internals']>['remote']>

interface RemoteAgentProps {
  agentId: string
  remote: Remote
  isBusy: boolean
  error: ParleyError | null
  onSave(remote: object): void
}

/** Shows the agent on another server that an agent represents: its card, and its connection. */
export function RemoteAgent({ agentId, remote, isBusy, error, onSave }: RemoteAgentProps) {
  const { cardUrl, card, headerNames, mayReceiveConfidential, approval } = remote
  return (
    <section className="block">
      <div className="block-head">
        <h2>Agent on another server</h2>
      </div>
      <p className="note">{cardUrl}</p>
      {card === null ? (
        <p className="hint">Its card is read when the first message is sent to it.</p>
      ) : (
        <>
          <p>
            <b>{card.name}</b> <span className="kind">{card.version}</span> <span className="note">{card.url}</span>
          </p>
          <p className="note">{card.description}</p>
          {card.skills.length > 0 && <p className="note">Skills: {card.skills.join(', ')}</p>}
        </>
      )}
      {!remote.confirmed && card !== null && <ConfirmCard agentId={agentId} fingerprint={card.fingerprint} />}
      <Form
        label="Agent on another server"
        submit="Save"
        isBusy={isBusy}
        error={error}
        onSubmit={(values) => {
          const headers = headersIn(values)
          onSave({
            ...(headers === undefined ? {} : { headers }),
            mayReceiveConfidential: values.get('mayReceiveConfidential') === 'on',
            // This form keeps the approval policy, which is changed through the API.
            approval: approval === null ? null : policyInputOf(approval),
          })
        }}
      >
        <HeaderFields stored={headerNames} />
        <CheckField
          label="Send it messages from confidential spaces"
          name="mayReceiveConfidential"
          defaultChecked={mayReceiveConfidential}
        />
      </Form>
    </section>
  )
}

function ConfirmCard({ agentId, fingerprint }: { agentId: string; fingerprint: string }) {
  const { connection } = useSession()
  const confirm = useDo(async (_: null) => {
    const made = await connection.ask(CONFIRM_AGENT_CARD, { input: { agentId, fingerprint } })
    payloadOf(made.confirmAgentCard, 'ConfirmAgentCardPayload')
  })
  return (
    <div className="plain-row">
      <span className="grow">
        The card has changed since it was trusted. Nothing is sent to the agent until you confirm the card above.
      </span>
      <Button isBusy={confirm.isBusy} onClick={() => confirm.start(null)}>
        Confirm
      </Button>
      <Refused error={confirm.error} />
    </div>
  )
}

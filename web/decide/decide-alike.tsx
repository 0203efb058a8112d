import { useState } from 'react'
import { payloadOf, type WaitingCall } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { inBrief } from '../ui/json.tsx'
import { Refused } from '../ui/notice.tsx'
import { DECIDE_TOOL_CALLS } from './operations.ts'
import { inputInWords } from './property-titles.ts'

/** The maximum number of decisions in one request. */
const MOST_AT_ONCE = 100

interface DecideAlikeProps {
  calls: readonly WaitingCall[]
  onBack(): void
}

/** Shows similar calls, and decides on all of them. The decision does not include calls that start waiting later. */
export function DecideAlike({ calls: current, onBack }: DecideAlikeProps) {
  const { connection } = useSession()
  const [calls] = useState(() => current.slice(0, MOST_AT_ONCE))
  const [reason, setReason] = useState('')
  const [failures, setFailures] = useState<string[]>([])
  const decide = useDo(async (approve: boolean) => {
    const input = { toolCallIds: calls.map(({ id }) => id), approve, reason: reason.trim() || null }
    const made = await connection.ask(DECIDE_TOOL_CALLS, { input })
    const { results } = payloadOf(made.decideToolCalls, 'DecideToolCallsPayload')
    const refused = results.flatMap((result) => ('message' in result ? [result.message] : []))
    setFailures([...new Set(refused)])
    if (refused.length === 0) onBack()
  })
  const [first] = calls
  return (
    <section className="decide-alike" aria-label={`Waiting calls of ${first?.toolName}`}>
      <ol>
        {calls.map(({ id, input, inputSchema, message }) => (
          <li key={id}>
            <span className="grow">{inBrief(inputInWords(input, inputSchema) ?? input, 300)}</span>
            {message !== null && <span className="note">{message.space.name}</span>}
          </li>
        ))}
      </ol>
      <div className="decide">
        <input
          aria-label="Reason for all"
          placeholder="Reason (optional)"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        <Button look="primary" icon="check" isBusy={decide.isBusy} onClick={() => decide.start(true)}>
          Approve all {calls.length}
        </Button>
        <Button look="danger" icon="cross" isBusy={decide.isBusy} onClick={() => decide.start(false)}>
          Deny all {calls.length}
        </Button>
        <Button look="quiet" onClick={onBack}>
          Back
        </Button>
        <Refused error={decide.error} />
        {failures.length > 0 && (
          <p className="why bad" role="alert">
            No decision was recorded for some calls: {failures.join(' ')}
          </p>
        )}
      </div>
    </section>
  )
}

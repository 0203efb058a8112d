import { useState } from 'react'
import { Link } from 'wouter'
import { payloadOf, type Space } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused } from '../ui/notice.tsx'
import { SPACE_CONFIDENCE, UPDATE_SPACE } from './operations.ts'

export const WHAT_IT_MEANS = 'Agents repeat messages from here only where every reader is also a member of this space.'

/** Shown below the header of a confidential space. */
export function ConfidenceLine() {
  return (
    <p className="confidence-line">
      <Icon name="lock" size={15} />
      <span>
        <b>Confidential.</b> {WHAT_IT_MEANS}
      </span>
    </p>
  )
}

/**
 * Shows and changes whether a space is confidential, and lists its agents that are also in other spaces. Members can turn it
 * on, but only admins can turn it off.
 */
export function Confidence({ space: { id, confidential } }: { space: Space }) {
  const { connection, isAdmin } = useSession()
  const [isAsked, setAsked] = useState(false)
  const set = useDo(async (next: boolean) => {
    setAsked(false)
    const made = await connection.ask(UPDATE_SPACE, { input: { id, confidential: next } })
    payloadOf(made.updateSpace, 'UpdateSpacePayload')
  })
  const lift = () => (isAsked ? set.start(false) : setAsked(true))
  return (
    <section className={`block confidence ${confidential ? 'kept' : ''}`} aria-label="Confidentiality">
      <h3>
        <Icon name={confidential ? 'lock' : 'unlock'} size={15} /> {confidential ? 'Confidential' : 'Not confidential'}
      </h3>
      <p className="hint">
        {confidential ? WHAT_IT_MEANS : 'Its agents may repeat what is written here in other spaces.'}
        {confidential && !isAdmin && ' Only an admin can turn this off.'}
      </p>
      {confidential && <Elsewhere spaceId={id} />}
      {!confidential && (
        <Button icon="lock" isBusy={set.isBusy} onClick={() => set.start(true)}>
          Make it confidential
        </Button>
      )}
      {confidential && isAdmin && (
        <Button look="danger" isBusy={set.isBusy} onClick={lift}>
          {isAsked ? 'Yes, turn it off' : 'Turn off confidentiality…'}
        </Button>
      )}
      <Refused error={set.error} />
    </section>
  )
}

function Elsewhere({ spaceId }: { spaceId: string }) {
  const { data } = useAsk(SPACE_CONFIDENCE, { id: spaceId })
  const agents = data?.space?.agentsElsewhere
  if (agents === undefined) return null
  if (agents.length === 0) return <p className="hint">None of its agents is a member of another space.</p>
  return (
    <>
      <p className="hint">Also in other spaces:</p>
      <ul className="member-chips" aria-label="Agents that are also in other spaces">
        {agents.map((agent) => (
          <li key={agent.id}>
            <Link href={`/agents/${agent.id}`}>
              <Avatar entity={agent} size={20} /> {agent.name}
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}

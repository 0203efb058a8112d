import { useState } from 'react'
import { Link } from 'wouter'
import type { WaitingCall } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { CallCard, plainCall } from '../talk/call-card.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/notice.tsx'
import { plainLine } from '../ui/plain-line.ts'
import { Moment } from '../ui/time.tsx'
import { GrantsToDecide } from './grants.tsx'
import { useGrantsToDecideCount } from './use-grants.ts'

/** Every call that waits for the viewer, in all spaces. */
export function WaitingPage() {
  const { viewer } = useSession()
  const calls = viewer.pendingToolCalls
  const grantCount = useGrantsToDecideCount()
  return (
    <>
      <PageHead
        title="Waiting for you"
        note={
          calls.length === 0
            ? null
            : `${calls.length} ${calls.length === 1 ? 'request' : 'requests'}, oldest first. Agents continue after you have decided.`
        }
      >
        <NotifyButton />
      </PageHead>
      <div className="page-scroll">
        <GrantsToDecide />
        {calls.length === 0 && grantCount === 0 ? (
          <Empty icon="check" title="Nothing is waiting for you">
            <p>
              When an agent in any of your spaces needs an approval or an answer, its request appears here. Get a push
              message or email too: <Link href="/notifications">Notifications</Link>
            </p>
          </Empty>
        ) : (
          <ul className="waiting-list">
            {calls.map((call) => (
              <Boundary key={call.id} what="tool call" version={call} text={() => plainCall(call)}>
                <Waiting call={call} />
              </Boundary>
            ))}
          </ul>
        )}
      </div>
    </>
  )
}

function Waiting({ call }: { call: WaitingCall }) {
  const { agent, message, run, createdAt } = call
  return (
    <li className="waiting">
      <header>
        <Avatar entity={{ ...agent, kind: 'AGENT' }} size={32} />
        <div className="grow">
          <strong>{agent.name}</strong> {call.waitsFor === 'DECISION' ? 'asks for your approval' : 'asks you'}
          {message !== null && (
            <>
              {' '}
              in <Link href={`/spaces/${message.space.id}#${message.id}`}>{message.space.name}</Link>
            </>
          )}
          {run !== null && <p className="why">{wordsOfTrigger(run.triggerSummary, message?.space.name)}</p>}
        </div>
        <Moment at={createdAt} />
      </header>
      <CallCard call={call} />
    </li>
  )
}

/** `Ada asked: “Order two rolls”` for a message in the space that the line above names. */
function wordsOfTrigger(summary: string, spaceName: string | undefined): string {
  const line = plainLine(summary)
  const [sender = '', text] = line.split(` in "${spaceName}": "`)
  if (text === undefined || !text.endsWith('"')) return `Started by: ${line}`
  return `${sender} asked: “${text.slice(0, -1)}”`
}

/** Asks the browser for permission to notify, unless it was asked before. */
function NotifyButton() {
  const [permission, setPermission] = useState(() => ('Notification' in window ? Notification.permission : 'denied'))
  if (permission !== 'default') return null
  return (
    <Button icon="bell" onClick={() => void Notification.requestPermission().then(setPermission)}>
      Notify me
    </Button>
  )
}

import { useState } from 'react'
import { Link } from 'wouter'
import type { Message } from '../../client/index.ts'
import { useAsk } from '../ask.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { PlainText } from '../ui/plain-text.tsx'
import { Moment } from '../ui/time.tsx'
import { VERSIONS } from './operations.ts'

/** Marks a message as edited, and shows its older texts on request. */
export function Edited({ message: { id, editedAt, deletedAt } }: { message: Message }) {
  const [isOpen, setOpen] = useState(false)
  if (editedAt === null || deletedAt !== null) return null
  return (
    <>
      <button type="button" className="outcomes-line" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        edited
      </button>
      <Dialog title="Older versions" open={isOpen} onOpenChange={setOpen}>
        <Versions messageId={id} />
      </Dialog>
    </>
  )
}

function Versions({ messageId }: { messageId: string }) {
  const ask = useAsk(VERSIONS, { messageId })
  if (ask.data === undefined) return <Unanswered what="the older versions" ask={ask} />
  const { versions = [], staleRuns = [] } = ask.data.message ?? {}
  return (
    <div className="versions">
      {versions.length === 0 && <p className="hint">Older versions no longer exist.</p>}
      <ol>
        {versions.map(({ text, editedAt }) => (
          <li key={editedAt}>
            <p className="note">
              until <Moment at={editedAt} />
            </p>
            <PlainText text={text} />
          </li>
        ))}
      </ol>
      {staleRuns.length > 0 && (
        <>
          <h3>Read an older version</h3>
          <ul className="member-chips">
            {staleRuns.map((run) => (
              <li key={run.id}>
                <Link href={`/runs/${run.id}`}>{run.agent.name}’s run</Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}

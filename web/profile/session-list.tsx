import type { ConsoleSessionFragment } from '../../generated/graphql.ts'
import { Button } from '../ui/button.tsx'
import { Moment } from '../ui/time.tsx'

interface SessionListProps {
  sessions: readonly ConsoleSessionFragment[]
  /** The person who is signed in, as a name or as `you`. */
  whom: string
  isBusy: boolean
  onEnd(id: string): void
}

/** The browsers in which a person is signed in. */
export function SessionList({ sessions, whom, isBusy, onEnd }: SessionListProps) {
  return (
    <>
      {sessions.length === 0 && (
        <p className="hint">
          {whom === 'you' ? 'No browser is signed in. This tab uses a token.' : `No browser is signed in as ${whom}.`}
        </p>
      )}
      <ul className="rows">
        {sessions.map(({ id, device, lastUsedAt, current, actingAdmin }) => (
          <li key={id} className="plain-row">
            <span className="grow">
              {device} {current && <span className="kind">this browser</span>}
              {actingAdmin !== null && (
                <span className="kind">
                  {actingAdmin.name} acts as {whom}
                </span>
              )}
              <span className="note">
                {' '}
                last used <Moment at={lastUsedAt} />
              </span>
            </span>
            {!current && (
              <Button isBusy={isBusy} onClick={() => onEnd(id)} aria-label={`End ${device}`}>
                End
              </Button>
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

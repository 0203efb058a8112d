import type { ReactNode } from 'react'
import { errorOf } from '../../client/errors.ts'
import type { ParleyError } from '../../client/index.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icons.tsx'

/** What something was refused with; nothing where it was not. It goes with the next try. */
export function Refused({ error, onRetry }: { error: ParleyError | null; onRetry?: (() => void) | undefined }) {
  return (
    <div role="alert" className="refused-place">
      {error !== null && (
        <div className="refused">
          <span>{error.message}</span>
          {onRetry && (
            <Button icon="retry" look="quiet" onClick={onRetry}>
              Try again
            </Button>
          )}
        </div>
      )}
    </div>
  )
}

interface EmptyProps {
  icon: IconName
  title: string
  children?: ReactNode
}

/** Where there is nothing yet: what it would be, and what to do. */
export function Empty({ icon, title, children }: EmptyProps) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon name={icon} size={28} />
      </span>
      <h2>{title}</h2>
      {children}
    </div>
  )
}

interface UnansweredProps {
  /** What was asked for, in words that follow “Loading”. */
  what: string
  ask: { error: Error | null; refetch(): unknown }
}

/** In the place of what was asked for, until it is there: that it is on its way, or why it does not come, and another try. */
export function Unanswered({ what, ask: { error, refetch } }: UnansweredProps) {
  if (error === null) return <Loading what={what} />
  return <Refused error={errorOf(error)} onRetry={() => void refetch()} />
}

/** Something is on its way: said to those who listen, drawn for those who look. */
export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      <span className="sr-only">Loading {what}…</span>
      <span className="bone wide" />
      <span className="bone" />
      <span className="bone narrow" />
    </div>
  )
}

import type { ReactNode } from 'react'
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

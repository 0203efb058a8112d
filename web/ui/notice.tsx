import type { ReactNode, Ref } from 'react'
import { errorOf } from '../../client/errors.ts'
import type { ParleyError } from '../../client/index.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icons.tsx'

interface RefusedProps {
  error: ParleyError | null
  onRetry?: (() => void) | undefined
  /** Receives the error when it appears. */
  ref?: Ref<HTMLDivElement>
}

/** Shows why a request failed. Empty until a request fails, and again during the next attempt. */
export function Refused({ error, onRetry, ref }: RefusedProps) {
  return (
    <div role="alert" className="refused-place">
      {error !== null && (
        <div className="refused" ref={ref}>
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

/** An empty state: explains what will appear here, and what to do. */
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
  /** The content that is loading, as words that follow “Loading”. */
  what: string
  ask: { error: Error | null; refetch(): unknown }
}

/** Replaces data that has not been loaded: shows that it is loading, or the error with a button to retry. */
export function Unanswered({ what, ask: { error, refetch } }: UnansweredProps) {
  if (error === null) return <Loading what={what} />
  return <Refused error={errorOf(error)} onRetry={() => void refetch()} />
}

/** A loading state: a text for screen readers, and an animation. */
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

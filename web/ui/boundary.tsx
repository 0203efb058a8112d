import { Component, type ReactNode } from 'react'
import { Button } from './button.tsx'
import { FALLBACK_TALL_PX, PlainText } from './plain-text.tsx'

interface BoundaryProps {
  /** What could not be shown, as a noun that follows “This”. */
  what: string
  /** The same as plain text, where that says something. */
  text?: (() => string) | undefined
  /** Another value tries again by itself: what is shown has changed. */
  version?: unknown
  /** In place of the usual words, where there is another way to show the same. */
  fallback?: ReactNode
  children: ReactNode
}

interface BoundaryState {
  hasFailed: boolean
  version: unknown
}

/** Keeps a failure to render something from taking away what stands around it. */
export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { hasFailed: false, version: this.props.version }

  static getDerivedStateFromError(): Partial<BoundaryState> {
    return { hasFailed: true }
  }

  static getDerivedStateFromProps({ version }: BoundaryProps, state: BoundaryState): BoundaryState | null {
    return version === state.version ? null : { hasFailed: false, version }
  }

  override render(): ReactNode {
    const { what, text, fallback, children } = this.props
    if (!this.state.hasFailed) return children
    if (fallback !== undefined) return fallback
    return (
      <section className="broken" aria-label={`A ${what} that could not be shown`}>
        <div className="broken-head">
          <span>This {what} could not be shown.</span>
          <Button icon="retry" look="quiet" onClick={() => this.setState({ hasFailed: false })}>
            Try again
          </Button>
        </div>
        {text !== undefined && <PlainText text={textOrNothing(text)} tallPx={FALLBACK_TALL_PX} />}
      </section>
    )
  }
}

/** What could not be rendered may not be readable either. */
function textOrNothing(text: () => string): string {
  try {
    return String(text())
  } catch {
    return ''
  }
}

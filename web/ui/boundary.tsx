import { Component, type ReactNode } from 'react'
import { Button } from './button.tsx'
import { FALLBACK_TALL_PX, PlainText } from './plain-text.tsx'

interface BoundaryProps {
  /** The content of the children, as a noun that can follow “This”. */
  what: string
  /** The same content as plain text, if this is useful. */
  text?: (() => string) | undefined
  /** When this value changes, the content has changed, so the children are rendered again. */
  version?: unknown
  /** Shown instead of the default message, if the content can be shown in another way. */
  fallback?: ReactNode
  children: ReactNode
}

interface BoundaryState {
  hasFailed: boolean
  version: unknown
}

/** An error boundary: if rendering the children throws, only they are replaced. */
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

/** Content that could not be rendered may not be convertible to text either. */
function textOrNothing(text: () => string): string {
  try {
    return String(text())
  } catch {
    return ''
  }
}

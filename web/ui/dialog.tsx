import { Dialog as Base } from '@base-ui/react/dialog'
import { type ReactElement, type ReactNode, type RefObject, useRef } from 'react'
import { Boundary } from './boundary.tsx'
import { IconButton } from './button.tsx'

interface DialogProps {
  title: string
  open: boolean
  onOpenChange(open: boolean): void
  /** A `sheet` slides in from the side and is as tall as the page. */
  look?: 'card' | 'sheet'
  /** Gets the focus when the dialog opens. Without it, the first field of a card gets the focus, otherwise the dialog itself. */
  initialFocus?: RefObject<HTMLElement | null> | undefined
  children: ReactNode
}

const FIELDS = ':is(input, select, textarea):enabled'

/** A modal dialog, which is closed by Escape, a click outside of it, or its button. */
export function Dialog({ title, open, onOpenChange, look = 'card', initialFocus, children }: DialogProps) {
  const popup = useRef<HTMLDivElement>(null)
  // Not the Close button, whose tooltip would open.
  const firstField = () => {
    const fields = look === 'card' ? [...(popup.current?.querySelectorAll<HTMLElement>(FIELDS) ?? [])] : []
    return fields.find((field) => field.checkVisibility()) ?? popup.current
  }
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" forceRender />
        <Base.Popup ref={popup} className={`dialog ${look}`} initialFocus={initialFocus ?? firstField}>
          <header className="dialog-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close render={(<IconButton label="Close" icon="cross" />) as ReactElement} />
          </header>
          <div className="dialog-body">
            <Boundary what="dialog">{children}</Boundary>
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

import { Dialog as Base } from '@base-ui/react/dialog'
import type { ReactElement, ReactNode } from 'react'
import { Boundary } from './boundary.tsx'
import { IconButton } from './button.tsx'

interface DialogProps {
  title: string
  open: boolean
  onOpenChange(open: boolean): void
  /** A `sheet` slides in from the side and is as tall as the page. */
  look?: 'card' | 'sheet'
  children: ReactNode
}

/** A modal dialog, which is closed by Escape, a click outside of it, or its button. */
export function Dialog({ title, open, onOpenChange, look = 'card', children }: DialogProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" forceRender />
        <Base.Popup className={`dialog ${look}`}>
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

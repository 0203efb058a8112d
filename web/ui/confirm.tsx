import { type ReactNode, useRef, useState } from 'react'
import type { ParleyError } from '../../client/index.ts'
import { Dialog } from './dialog.tsx'
import { Form } from './field.tsx'

interface ConfirmProps {
  /** The question. */
  title: string
  open: boolean
  onOpenChange(open: boolean): void
  /** The label of the button that confirms. */
  submit: string
  isBusy?: boolean
  error?: ParleyError | null
  onConfirm(): void
  /** The consequences of the action. */
  children: ReactNode
}

/** Asks before an action that cannot easily be undone. */
export function Confirm({ title, open, onOpenChange, submit, isBusy, error, onConfirm, children }: ConfirmProps) {
  const back = useRef<HTMLButtonElement>(null)
  return (
    <Dialog title={title} open={open} onOpenChange={onOpenChange} initialFocus={back}>
      <Form
        label={title}
        submit={submit}
        look="danger"
        isBusy={isBusy ?? false}
        error={error ?? null}
        onSubmit={onConfirm}
        onBack={() => onOpenChange(false)}
        backRef={back}
      >
        {children}
      </Form>
    </Dialog>
  )
}

interface AskFirstProps extends Omit<ConfirmProps, 'open' | 'onOpenChange' | 'onConfirm'> {
  /** Returns the button that opens the question. */
  button(ask: () => void): ReactNode
  /** Performs the action. Call `close` when the action has succeeded. */
  onConfirm(close: () => void): void
}

/** A button that asks for confirmation before its action. */
export function AskFirst({ button, onConfirm, ...question }: AskFirstProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      {button(() => setOpen(true))}
      <Confirm {...question} open={isOpen} onOpenChange={setOpen} onConfirm={() => onConfirm(() => setOpen(false))} />
    </>
  )
}

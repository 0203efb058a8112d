import { type ComponentProps, type FormEvent, type ReactNode, type Ref, useId } from 'react'
import type { ParleyError } from '../../client/index.ts'
import { Button } from './button.tsx'
import { Refused } from './notice.tsx'

interface FieldProps {
  label: string
  hint?: ReactNode
  children(props: { id: string; 'aria-describedby'?: string }): ReactNode
}

export function Field({ label, hint, children }: FieldProps) {
  const id = useId()
  const hintId = `${id}-hint`
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(hint === undefined ? { id } : { id, 'aria-describedby': hintId })}
      {hint !== undefined && (
        <p className="hint" id={hintId}>
          {hint}
        </p>
      )}
    </div>
  )
}

type TextProps = ComponentProps<'input'> & { label: string; hint?: ReactNode }

export function TextField({ label, hint, ...props }: TextProps) {
  return (
    <Field label={label} hint={hint}>
      {(given) => <input autoComplete="off" {...props} {...given} />}
    </Field>
  )
}

type AreaProps = ComponentProps<'textarea'> & { label: string; hint?: ReactNode }

export function AreaField({ label, hint, ...props }: AreaProps) {
  return (
    <Field label={label} hint={hint}>
      {(given) => <textarea rows={4} {...props} {...given} />}
    </Field>
  )
}

type SelectProps = ComponentProps<'select'> & {
  label: string
  hint?: ReactNode
  options: readonly (readonly [string, string])[]
}

export function SelectField({ label, hint, options, ...props }: SelectProps) {
  return (
    <Field label={label} hint={hint}>
      {(given) => (
        <select {...props} {...given}>
          {options.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

type CheckProps = ComponentProps<'input'> & { label: string; hint?: ReactNode }

export function CheckField({ label, hint, ...props }: CheckProps) {
  const id = useId()
  const hintId = `${id}-hint`
  return (
    <div className="check">
      <input type="checkbox" {...props} id={id} aria-describedby={hint === undefined ? undefined : hintId} />
      <label htmlFor={id}>{label}</label>
      {hint !== undefined && (
        <p className="hint" id={hintId}>
          {hint}
        </p>
      )}
    </div>
  )
}

interface FormProps {
  label: string
  /** Called with the values of the form by field name. */
  onSubmit(values: FormData): void
  submit: string
  isBusy: boolean
  error: ParleyError | null
  children: ReactNode
  look?: 'plain' | 'primary' | 'danger'
  /** Closes the form without submitting. */
  onBack?: () => void
  /** Refers to the button for `onBack`. */
  backRef?: Ref<HTMLButtonElement>
  /** A button next to the others. */
  button?: ReactNode
  /** Lets the caller reset the form. */
  ref?: Ref<HTMLFormElement>
}

export function Form(props: FormProps) {
  const { label, onSubmit, submit, isBusy, error, children, look = 'primary', onBack, backRef, button, ref } = props

  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    onSubmit(new FormData(event.currentTarget))
  }
  return (
    <form ref={ref} aria-label={label} className="form" onSubmit={send}>
      {children}
      <div className="form-end">
        <Refused error={error} ref={scrollTo} />
        {button}
        {onBack && (
          <Button look="quiet" onClick={onBack} ref={backRef}>
            Back
          </Button>
        )}
        <Button look={look} type="submit" isBusy={isBusy}>
          <span className="one-line">{submit}</span>
        </Button>
      </div>
    </form>
  )
}

/** If a long form is submitted with Enter, its end can be outside of the window. */
const scrollTo = (element: Element | null) => element?.scrollIntoView({ block: 'nearest' })

/** Returns the trimmed text of a field; null if it is empty. */
export function textIn(values: FormData, name: string): string | null {
  const text = String(values.get(name) ?? '').trim()
  return text === '' ? null : text
}

/** @throws if the value is not a number */
export function numberIn(values: FormData, name: string): number | null {
  const text = textIn(values, name)
  return text === null ? null : Number(text)
}

import { lazy, Suspense, useState } from 'react'
import { ParleyError } from '../../client/errors.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { AreaField, Form } from '../ui/field.tsx'
import { jsonText } from '../ui/json-text.ts'
import { Loading } from '../ui/notice.tsx'
import { fitsForm } from './form-limits.ts'
import type { SchemaFormProps } from './schema-form.tsx'

const SchemaForm = lazy(() => import('./schema-form.tsx'))

/** Edits a value for a JSON Schema: with a form, or as JSON if the schema does not fit a form. */
export function InputForm(props: SchemaFormProps) {
  const asJson = <JsonForm {...props} />
  if (!fitsForm(props.schema, props.value)) return asJson
  return (
    <Boundary what="form" fallback={asJson}>
      <Suspense fallback={<Loading what="the form" />}>
        <SchemaForm {...props} />
      </Suspense>
    </Boundary>
  )
}

/** The maximum size that browsers can edit smoothly. */
const MOST = { characters: 300_000, depth: 200 }

function JsonForm({ label, value, submit, isBusy, error, onSubmit, onBack, children, button }: SchemaFormProps) {
  const [failure, setFailure] = useState<ParleyError | null>(null)
  const { text, isCut } = value === undefined ? { text: '', isCut: false } : jsonText(value, MOST)
  const send = (values: FormData) => {
    setFailure(null)
    try {
      onSubmit(JSON.parse(String(values.get('json'))))
    } catch {
      setFailure(new ParleyError('The value is not valid JSON. Correct it and try again.', 'BAD_INPUT'))
    }
  }
  if (isCut) {
    return (
      <div className="schema-form">
        <p className="plain-note">This input is too large to edit here. Approve or deny it unchanged.</p>
        <div className="form-end">
          {button}
          {onBack && (
            <Button look="quiet" onClick={onBack}>
              Back
            </Button>
          )}
        </div>
      </div>
    )
  }
  return (
    <Form
      label={label}
      submit={submit}
      isBusy={isBusy}
      error={failure ?? error}
      onSubmit={send}
      onBack={onBack}
      button={button}
    >
      <AreaField
        label="Value"
        name="json"
        rows={10}
        required
        spellCheck={false}
        defaultValue={text}
        hint="JSON, because the schema has too many fields for a form. The server validates the value."
      />
      {children}
    </Form>
  )
}

import { Validator } from '@cfworker/json-schema'
import RjsfForm from '@rjsf/core/lib/components/Form.js'
import type { ErrorSchema, IconButtonProps, RJSFSchema, RJSFValidationError, ValidatorType } from '@rjsf/utils'
import type { ReactNode } from 'react'
import type { ParleyError } from '../../client/index.ts'
import { Button, IconButton } from '../ui/button.tsx'
import type { IconName } from '../ui/icons.tsx'
import { Refused } from '../ui/notice.tsx'
import { withoutPatterns } from './form-limits.ts'

export interface SchemaFormProps {
  label: string
  schema: Record<string, unknown>
  /** The initial value. */
  value?: unknown
  submit: string
  isBusy: boolean
  error: ParleyError | null
  onSubmit(value: unknown): void
  /** Closes the form without submitting. */
  onBack?: () => void
  /** Shown between the fields and the buttons. */
  children?: ReactNode
  /** A button next to the others. */
  button?: ReactNode
}

/** A form generated from a JSON Schema. */
// biome-ignore lint/style/noDefaultExport: React's lazy loads this component when a form is first shown
export default function SchemaForm(props: SchemaFormProps) {
  const { label, schema, value, submit, isBusy, error, onSubmit, onBack, children, button } = props
  return (
    <div className="schema-form">
      <RjsfForm
        schema={schema as RJSFSchema}
        // Do not use `formData`: each render of a parent would reset the form to the initial value.
        initialFormData={value}
        validator={VALIDATOR}
        showErrorList={false}
        noHtml5Validate
        focusOnFirstError
        templates={TEMPLATES}
        uiSchema={{ 'ui:submitButtonOptions': { norender: true }, ...orderOf(schema) }}
        aria-label={label}
        // Each field shows its error, so there is nothing to log.
        onError={() => {}}
        onSubmit={({ formData }) => onSubmit(formData)}
      >
        {children}
        <Refused error={error} />
        <div className="form-end">
          {button}
          {onBack && (
            <Button look="quiet" onClick={onBack}>
              Back
            </Button>
          )}
          <Button look="primary" type="submit" isBusy={isBusy}>
            {submit}
          </Button>
        </div>
      </RjsfForm>
    </div>
  )
}

/** Puts required fields first, because the database does not keep the order of an object's properties. */
function orderOf({ properties, required }: Record<string, unknown>): { 'ui:order'?: string[] } {
  if (typeof properties !== 'object' || properties === null || !Array.isArray(required)) return {}
  return { 'ui:order': [...required.filter((name) => name in properties), '*'] }
}

/** A list button with one of our icons, because the library's own icons need a font that is not loaded. */
const listButton =
  (label: string, icon: IconName, className = '') =>
  ({ id, onClick, disabled }: IconButtonProps) => (
    <IconButton id={id} label={label} icon={icon} className={className} onClick={onClick} disabled={disabled} />
  )

const TEMPLATES = {
  ButtonTemplates: {
    AddButton: listButton('Add one', 'plus'),
    CopyButton: listButton('Copy', 'copy'),
    MoveUpButton: listButton('Move up', 'down', 'upwards'),
    MoveDownButton: listButton('Move down', 'down'),
    RemoveButton: listButton('Remove', 'cross'),
    ClearButton: listButton('Clear', 'cross'),
  },
}

/**
 * Validates by interpreting the schema: the usual validators generate code, which the page's content security
 * policy forbids.
 */
const VALIDATOR: ValidatorType = {
  validateFormData(formData, schema) {
    const errors = errorsOf(schema, formData)
    const errorSchema: Record<string, unknown> = {}
    for (const { property = '', message = '' } of errors) put(errorSchema, property.split('.').filter(Boolean), message)
    return { errors, errorSchema: errorSchema as ErrorSchema }
  },
  isValid: (schema, formData) => errorsOf(schema, formData).length === 0,
  rawValidation: <Result,>(schema: RJSFSchema, formData: unknown) => ({
    errors: errorsOf(schema, formData) as Result[],
  }),
  reset: () => {},
}

function errorsOf(schema: RJSFSchema | boolean, formData: unknown): RJSFValidationError[] {
  if (typeof schema === 'boolean') return []
  const { errors } = new Validator(withoutPatterns(schema) as never, '2020-12', false).validate(formData ?? {})
  // The errors of a container only report that something inside it is invalid.
  return errors
    .filter(({ keyword }) => !['properties', 'items', 'additionalProperties'].includes(keyword))
    .map(({ instanceLocation, keyword, error }) => {
      const missing = keyword === 'required' ? /"([^"]+)"/.exec(error)?.[1] : undefined
      const path = instanceLocation.replace(/^#\/?/, '').split('/').filter(Boolean)
      const property = [...path, ...(missing === undefined ? [] : [missing])].join('.')
      const message = missing === undefined ? error : 'This field is required.'
      return { name: keyword, property: `.${property}`, message, stack: message }
    })
}

function put(errors: Record<string, unknown>, path: string[], message: string): void {
  let place = errors
  for (const step of path) {
    place[step] ??= {}
    place = place[step] as Record<string, unknown>
  }
  place['__errors'] = [...((place['__errors'] as string[] | undefined) ?? []), message]
}

import { useId, useState } from 'react'
import { Button, IconButton } from '../ui/button.tsx'
import { AreaField } from '../ui/field.tsx'
import { hasNameBefore, rowsOf, type SchemaRow, type SchemaRowType, schemaOf, wordsOfKeywords } from './schema-rows.ts'

const TYPES: readonly (readonly [SchemaRowType, string])[] = [
  ['string', 'Text'],
  ['number', 'Number'],
  ['integer', 'Whole number'],
  ['boolean', 'Yes or no'],
  ['strings', 'List of texts'],
]
const NEW: SchemaRow = { name: '', type: 'string', isRequired: true, description: '', more: {} }

interface SchemaFieldsProps {
  label: string
  /** The form field that contains the schema as JSON text; '' for none. */
  name: string
  /** The label of the choice to have no schema; null if a schema is required. */
  initial: unknown
  /** Whether a schema is required. */
  required?: boolean
  hint: string
}

/** Edits a JSON Schema as a list of fields. Edits it as JSON if it contains more than fields, or if the person prefers JSON. */
export function SchemaFields({ label, name, initial, required = false, hint }: SchemaFieldsProps) {
  const [json, setJson] = useState<string | null>(() =>
    initial == null || rowsOf(initial) !== null ? null : JSON.stringify(initial, null, 2),
  )
  const [rows, setRows] = useState<readonly SchemaRow[]>(() => rowsOf(initial) ?? [])
  const legendId = useId()
  if (json !== null) {
    const readable = json.trim() === '' && !required ? [] : rowsOf(parsed(json))
    return (
      <>
        <AreaField
          label={label}
          name={name}
          rows={7}
          required={required}
          spellCheck={false}
          value={json}
          onChange={(event) => setJson(event.target.value)}
          hint={`JSON Schema. ${hint}`}
        />
        {readable !== null && (
          <div>
            <Button
              look="quiet"
              onClick={() => {
                setRows(readable)
                setJson(null)
              }}
            >
              {label} as fields
            </Button>
          </div>
        )}
      </>
    )
  }
  const isEmpty = rows.length === 0 && !required
  const text = isEmpty ? '' : JSON.stringify(schemaOf(rows), null, 2)
  const change = (at: number, changed: Partial<SchemaRow>) =>
    setRows(rows.map((row, place) => (place === at ? { ...row, ...changed } : row)))
  return (
    <fieldset className="schema-rows" aria-labelledby={legendId}>
      <legend id={legendId}>{label}</legend>
      <p className="hint">{hint}</p>
      <input type="hidden" name={name} value={text} />
      {rows.map((row, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a row has no other identity while its name is being typed
        <div key={at} className="schema-row">
          <input
            aria-label={`Name of field ${at + 1}`}
            placeholder="name"
            value={row.name}
            required
            ref={(field) =>
              field?.setCustomValidity(
                hasNameBefore(rows, at) ? 'Another field has this name. Choose a different one.' : '',
              )
            }
            onChange={(event) => change(at, { name: event.target.value })}
          />
          <select
            aria-label={`Type of field ${at + 1}`}
            value={row.type}
            onChange={(event) => change(at, { type: event.target.value as SchemaRowType, more: {} })}
          >
            {TYPES.map(([type, words]) => (
              <option key={type} value={type}>
                {words}
              </option>
            ))}
          </select>
          <input
            aria-label={`Description of field ${at + 1}`}
            placeholder="description for the model"
            value={row.description}
            onChange={(event) => change(at, { description: event.target.value })}
          />
          <label className="choice">
            <input
              type="checkbox"
              checked={row.isRequired}
              onChange={(event) => change(at, { isRequired: event.target.checked })}
            />
            <span>required</span>
          </label>
          <IconButton
            label={`Remove field ${at + 1}`}
            icon="cross"
            onClick={() => setRows(rows.filter((_, place) => place !== at))}
          />
          {Object.keys(row.more).length > 0 && <p className="hint">also: {wordsOfKeywords(row.more)}</p>}
        </div>
      ))}
      <div className="schema-rows-end">
        <Button icon="plus" onClick={() => setRows([...rows, NEW])}>
          Add a field
        </Button>
        <Button look="quiet" disabled={rows.some((_, at) => hasNameBefore(rows, at))} onClick={() => setJson(text)}>
          {label} as JSON
        </Button>
      </div>
    </fieldset>
  )
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}

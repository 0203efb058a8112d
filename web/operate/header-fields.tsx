import { useState } from 'react'
import { Button, IconButton } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'

/** A row of the form; `id` identifies the row while it is edited. */
interface Row {
  id: number
}

/** Edits the names and values of request headers. Stored values are never shown, because the API does not return them. */
export function HeaderFields({ stored }: { stored: readonly string[] }) {
  const [rows, setRows] = useState<Row[]>([])
  const [isRemoving, setRemoving] = useState(false)
  const next = Math.max(0, ...rows.map(({ id }) => id)) + 1
  const known = stored.length > 0 && rows.length === 0
  return (
    <fieldset className="header-fields">
      <legend>Headers</legend>
      <p className="hint">
        {known
          ? `Stored: ${stored.join(', ')}. The stored headers stay unless new ones replace them.`
          : 'Stored encrypted and never shown again. An API key usually goes in the header “authorization”.'}
      </p>
      {known && (
        <label className="choice">
          <input
            type="checkbox"
            name="removeHeaders"
            checked={isRemoving}
            onChange={(event) => setRemoving(event.target.checked)}
          />
          <span>Remove the stored headers</span>
        </label>
      )}
      {rows.map(({ id }, index) => (
        <div key={id} className="columns">
          <TextField label={`Header ${index + 1}`} name="headerName" defaultValue={id === 1 ? 'authorization' : ''} />
          <TextField
            label={`Value of header ${index + 1}`}
            name="headerValue"
            type="password"
            placeholder="Bearer …"
            autoComplete="new-password"
          />
          <IconButton
            label={`Remove header ${index + 1}`}
            icon="cross"
            onClick={() => setRows(rows.filter((row) => row.id !== id))}
          />
        </div>
      ))}
      <Button icon="plus" onClick={() => setRows([...rows, { id: next }])}>
        Add a header
      </Button>
    </fieldset>
  )
}

/** Returns the headers of the form. Undefined keeps the stored headers, and null removes them. */
export function headersIn(values: FormData): Record<string, string> | null | undefined {
  const names = values.getAll('headerName').map((name) => String(name).trim())
  const given = values.getAll('headerValue').map((value) => String(value).trim())
  const filled = names.flatMap((name, index): [string, string][] => (name === '' ? [] : [[name, given[index] ?? '']]))
  if (filled.length > 0) return Object.fromEntries(filled)
  return values.get('removeHeaders') === 'on' ? null : undefined
}

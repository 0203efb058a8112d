import { ParleyError } from '../../client/index.ts'
import { textIn } from '../ui/field.tsx'

/** Parses a form field as JSON; null if it is empty. @throws ParleyError with the name of the field */
export function jsonIn(values: FormData, name: string, label: string): unknown {
  const text = textIn(values, name)
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    throw new ParleyError(`${label} must be valid JSON: put names and strings in double quotes.`, 'BAD_INPUT')
  }
}

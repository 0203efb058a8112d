import type { ComponentProps } from 'react'
import { TextField } from '../ui/field.tsx'

/**
 * A field for the name of a tool or an MCP server. Replaces the browser's message about an invalid name, which does not list
 * the allowed characters.
 */
export function ToolNameField(props: Omit<ComponentProps<typeof TextField>, 'label' | 'name'>) {
  return (
    <TextField
      {...props}
      label="Name"
      name="name"
      required
      pattern="[A-Za-z0-9_\-]{1,64}"
      onInvalid={({ currentTarget }) => {
        if (currentTarget.validity.patternMismatch)
          currentTarget.setCustomValidity('Use only letters, digits, _ and -, at most 64.')
      }}
      onInput={({ currentTarget }) => currentTarget.setCustomValidity('')}
    />
  )
}

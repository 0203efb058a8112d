import { type ComponentProps, useId } from 'react'
import { useAsk } from '../ask.ts'
import { TextField } from '../ui/field.tsx'
import { MODELS } from './operations.ts'

/** A text field for the name of a model, with the models that the providers list as suggestions. */
export function ModelField({ hint, ...props }: ComponentProps<typeof TextField>) {
  const listId = useId()
  const { data } = useAsk(MODELS, {})
  const providers = data?.modelProviders ?? []
  const whenEmpty = props.required || data?.defaultModel == null ? '' : `. Empty: ${data.defaultModel}, the default.`
  const names = providers.flatMap(({ name, models }) =>
    name === 'demo' ? ['demo'] : models.map((model) => `${name}:${model}`),
  )
  return (
    <>
      <TextField
        {...props}
        hint={hint ?? `provider:model, e.g. openai:gpt-5-mini, or demo${whenEmpty}`}
        list={listId}
      />
      <datalist id={listId}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  )
}

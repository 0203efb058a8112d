import { type ComponentProps, useId, useRef, useState } from 'react'
import { Link } from 'wouter'
import { useAsk } from '../ask.ts'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { MODELS } from './operations.ts'
import { warningAbout } from './providers.ts'

const MOST_OFFERED = 6

interface ModelFieldProps extends ComponentProps<typeof TextField> {
  /** Shows the first models of the ready providers below the field, to click. */
  offersReady?: boolean
}

/**
 * A text field for the name of a model, which suggests the models that the providers list, and warns if the provider of the
 * entered model cannot be called.
 */
export function ModelField({ hint, offersReady = false, ...props }: ModelFieldProps) {
  const listId = useId()
  const [entered, setEntered] = useState(String(props.defaultValue ?? ''))
  const box = useRef<HTMLDivElement>(null)
  const { data } = useAsk(MODELS, {})
  const providers = data?.modelProviders ?? []
  const whenEmpty = props.required || data?.defaultModel == null ? '' : `. Empty: ${data.defaultModel}, the default.`
  const namesOf = (some: typeof providers) =>
    some.flatMap(({ name, models }) => (name === 'demo' ? ['demo'] : models.map((model) => `${name}:${model}`)))
  const offered = offersReady ? namesOf(providers.filter(({ ready }) => ready)).slice(0, MOST_OFFERED) : []
  const warning = data === undefined ? null : warningAbout(entered, providers)
  const choose = (name: string) => {
    const input = box.current?.querySelector('input')
    if (input) input.value = name
    setEntered(name)
  }
  return (
    <div ref={box} className="field">
      <TextField
        {...props}
        hint={hint ?? `provider:model, e.g. openai:gpt-5-mini, or demo${whenEmpty}`}
        list={listId}
        onChange={({ target }) => setEntered(target.value)}
      />
      <p role="status" className="bad">
        {warning !== null && (
          <>
            {warning} See <Link href="/models">Models</Link>.
          </>
        )}
      </p>
      <datalist id={listId}>
        {namesOf(providers).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {offered.length > 0 && (
        <fieldset className="chips" aria-label="Ready models">
          {offered.map((name) => (
            <Button key={name} onClick={() => choose(name)}>
              {name}
            </Button>
          ))}
        </fieldset>
      )}
    </div>
  )
}

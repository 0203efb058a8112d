import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { DELETE_MODEL_PROVIDER, SET_MODEL_PROVIDER } from './operations.ts'
import { APIS, KNOWN, type KnownProvider, LOCAL_WORDS, type Provider } from './providers.ts'

function useSaving(onDone: () => void) {
  const { connection } = useSession()
  return useDo(async (input: { name: string; api: string; baseUrl?: string | null; apiKey?: string | null }) => {
    payloadOf((await connection.ask(SET_MODEL_PROVIDER, { input })).setModelProvider, 'SetModelProviderPayload')
    onDone()
  })
}

interface NewProviderProps {
  /** The provider to set up; null: it is chosen in the form. */
  known: KnownProvider | null
  /** The names of the providers that are set up. */
  taken: readonly string[]
  onDone(): void
}

export function NewProvider({ known: given, taken, onDone }: NewProviderProps) {
  const offered = KNOWN.filter(({ name }) => !taken.includes(name))
  const [choice, setChoice] = useState<string>(offered[0]?.name ?? '')
  const known = given ?? offered.find(({ name }) => name === choice)
  const save = useSaving(onDone)
  const submit = (values: FormData) => {
    const baseUrl = textIn(values, 'baseUrl')
    const apiKey = textIn(values, 'apiKey')
    save.start({
      name: known?.name ?? textIn(values, 'name') ?? '',
      api: known?.api ?? String(values.get('api')),
      ...(baseUrl === null ? {} : { baseUrl }),
      ...(apiKey === null ? {} : { apiKey }),
    })
  }
  const [label, button] = given === null ? ['Add provider', 'Add'] : [`Set up ${given.words}`, 'Set up']
  return (
    <Form label={label} submit={button} isBusy={save.isBusy} error={save.error} onSubmit={submit}>
      <p className="hint">
        Parley then asks the provider for its models, and shows whether it answers. Agents can use the models at once,
        without a restart.
      </p>
      {given === null && (
        <SelectField
          label="Provider"
          name="provider"
          value={choice}
          onChange={(event) => setChoice(event.target.value)}
          options={[...offered.map((one) => [one.name, optionOf(one)] as const), ['', 'Another server']]}
        />
      )}
      {known === undefined && (
        <>
          <TextField
            label="Name"
            name="name"
            required
            maxLength={64}
            hint="The part before the colon in model names, e.g. mine in mine:large"
          />
          <SelectField label="API" name="api" options={APIS} />
        </>
      )}
      <KeyField
        hint={
          known?.isLocal
            ? 'Usually none is needed.'
            : `You create it on the website of the provider. Stored encrypted and never shown again.${known === undefined ? ' Self-hosted servers may need none.' : ''}`
        }
      />
      <AddressField required={known === undefined} />
    </Form>
  )
}

const optionOf = ({ words, isLocal }: KnownProvider) => (isLocal ? `${words}, ${LOCAL_WORDS}` : words)

export function ChangedProvider({ provider, onDone }: { provider: Provider; onDone(): void }) {
  const { name, api, baseUrl, hasKey } = provider
  const save = useSaving(onDone)
  const submit = (values: FormData) => {
    const apiKey = textIn(values, 'apiKey')
    const address = textIn(values, 'baseUrl')
    save.start({ name, api: String(values.get('api')), baseUrl: address, ...(apiKey === null ? {} : { apiKey }) })
  }
  return (
    <Form label={`Change ${name}`} submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={submit}>
      <SelectField label="API" name="api" options={APIS} defaultValue={api} />
      <KeyField
        hint={
          hasKey
            ? 'A key is stored. Leave this empty to keep it; a change of the API or the address needs the key again.'
            : 'Stored encrypted and never shown again.'
        }
      />
      <AddressField value={baseUrl ?? ''} />
    </Form>
  )
}

function KeyField({ hint }: { hint: string }) {
  return <TextField label="API key" name="apiKey" type="password" autoComplete="off" spellCheck={false} hint={hint} />
}

function AddressField({ required = false, value = '' }: { required?: boolean; value?: string }) {
  return (
    <TextField
      label="Address"
      name="baseUrl"
      type="url"
      required={required}
      defaultValue={value}
      placeholder={required ? 'https://models.example.com/v1' : 'the standard address'}
      hint={
        required
          ? 'Include the version, as in /v1.'
          : 'Leave empty for the standard address. Otherwise include the version, as in /v1.'
      }
    />
  )
}

export function ProviderDeletion({ name, onDone }: { name: string; onDone(): void }) {
  const { connection } = useSession()
  const remove = useDo(async () => {
    const { deleteModelProvider } = await connection.ask(DELETE_MODEL_PROVIDER, { input: { name } })
    payloadOf(deleteModelProvider, 'DeleteModelProviderPayload')
    onDone()
  })
  return (
    <Form
      label={`Delete ${name}`}
      submit="Delete"
      look="danger"
      isBusy={remove.isBusy}
      error={remove.error}
      onSubmit={() => remove.start(undefined)}
    >
      <p>
        Deletes the provider and its key. Runs of agents that use its models will fail, with this reason, until the
        agents get another model or a provider with this name is added again.
      </p>
    </Form>
  )
}

import { useId, useState } from 'react'
import { useLocation, useSearch } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleModelsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { DELETE_MODEL_PROVIDER, MODELS, SET_MODEL_PROVIDER, TEST_MODEL_PROVIDER } from './operations.ts'

type Provider = NonNullable<ConsoleModelsQuery['modelProviders']>[number]

/** Well-known providers: their names and APIs. The server knows the addresses of those without one. */
const KNOWN = [
  { name: 'openai', words: 'OpenAI', api: 'openai' },
  { name: 'anthropic', words: 'Anthropic', api: 'anthropic' },
  { name: 'google', words: 'Google', api: 'google' },
  { name: 'openrouter', words: 'OpenRouter', api: 'openai-chat' },
  { name: 'groq', words: 'Groq', api: 'openai-chat' },
  { name: 'mistral', words: 'Mistral', api: 'openai-chat' },
  { name: 'deepseek', words: 'DeepSeek', api: 'openai-chat' },
  { name: 'xai', words: 'xAI', api: 'openai-chat' },
  { name: 'ollama', words: 'Ollama, on the machine of the server', api: 'openai-chat' },
  { name: 'lmstudio', words: 'LM Studio, on the machine of the server', api: 'openai-chat' },
] as const

const APIS = [
  ['openai-chat', 'Chat Completions: most servers'],
  ['openai', 'OpenAI Responses'],
  ['anthropic', 'Anthropic Messages'],
  ['google', 'Google Gemini'],
] as const

/** Returns where a provider is called: its address, or its API in words. */
export const placeOf = ({ name, api, baseUrl }: Pick<Provider, 'name' | 'api' | 'baseUrl'>) =>
  baseUrl ?? (name === 'demo' ? 'scripted' : (APIS.find(([known]) => known === api)?.[1].split(':')[0] ?? api))

/** The query of this page's address with which the form for a new provider is open. */
export const WITH_NEW_PROVIDER = '?new'

/** The model providers: their state, a test call, and for those that admins added, changes. */
export function ModelsPage() {
  const ask = useAsk(MODELS, {})
  const search = useSearch()
  const [, go] = useLocation()
  const [edited, setEdited] = useState<Provider | 'new' | null>(`?${search}` === WITH_NEW_PROVIDER ? 'new' : null)
  const close = () => {
    setEdited(null)
    if (search !== '') go('/models', { replace: true })
  }
  // `openai.chat`, the other API of `openai`, is of interest once it is set up.
  const providers = (ask.data?.modelProviders ?? []).filter((one) => one.name !== 'openai.chat' || isSet(one))
  return (
    <>
      <PageHead title="Models" note="Providers of models, and whether they can be called now">
        <Button look="primary" icon="plus" onClick={() => setEdited('new')}>
          Add provider
        </Button>
      </PageHead>
      <div className="page-scroll">
        {ask.data === undefined ? (
          <Unanswered what="model providers" ask={ask} />
        ) : providers.length === 0 ? (
          <Empty icon="mind" title="No model providers">
            <p>Add a provider with its key to give agents a model.</p>
          </Empty>
        ) : (
          providers.map((provider) => (
            <ProviderCard key={provider.name} provider={provider} onEdit={() => setEdited(provider)} />
          ))
        )}
      </div>
      <Dialog
        title={edited === 'new' ? 'Add provider' : `Change ${edited?.name ?? ''}`}
        open={edited !== null && ask.data !== undefined}
        onOpenChange={close}
      >
        {edited === 'new' && <NewProvider taken={providers.filter(isSet).map(({ name }) => name)} onDone={close} />}
        {edited !== null && edited !== 'new' && <ChangedProvider provider={edited} onDone={close} />}
      </Dialog>
    </>
  )
}

/** `openai` and `openai.chat` are listed even before they are set up. */
export const isSet = ({ fromEnvironment, hasKey, baseUrl }: Provider) => fromEnvironment || hasKey || baseUrl !== null

function readyWords({ baseUrl, models }: Provider): string {
  if (models.length > 0) return 'Ready.'
  const question =
    baseUrl === null || /\/v\d\w*\/?$/.test(baseUrl) ? '' : ' Does its URL end with a version, such as /v1?'
  return `Ready, but the provider lists no models.${question} Test a model.`
}

function ProviderCard({ provider, onEdit }: { provider: Provider; onEdit(): void }) {
  const { name, ready, notReadyReason, fromEnvironment, hasKey } = provider
  const [isDeleting, setDeleting] = useState(false)
  const origin = name === 'demo' ? 'built in' : fromEnvironment ? 'set by the environment' : 'set here'
  return (
    <section className="block card" aria-label={name}>
      <div className="plain-row">
        <Icon name={ready ? 'check' : 'cross'} size={16} />
        <h2>{name}</h2>
        <span className="note grow">
          {placeOf(provider)}
          {isSet(provider) && ` · ${hasKey ? 'has a key' : ready ? 'needs no key' : 'no key'} · ${origin}`}
        </span>
        {!fromEnvironment && <Button onClick={onEdit}>{isSet(provider) ? 'Change' : 'Set up'}</Button>}
        {!fromEnvironment && isSet(provider) && (
          <Button look="danger" onClick={() => setDeleting(true)}>
            Delete
          </Button>
        )}
      </div>
      <p>
        {ready
          ? readyWords(provider)
          : isSet(provider)
            ? `Not ready: ${notReadyReason}`
            : 'No key yet. Set the provider up to use its models.'}
      </p>
      {isSet(provider) && <Trial provider={provider} />}
      <Dialog title={`Delete ${name}`} open={isDeleting} onOpenChange={setDeleting}>
        <Deletion name={name} onDone={() => setDeleting(false)} />
      </Dialog>
    </section>
  )
}

/** Calls one model, and shows its answer or the provider's error. */
function Trial({ provider: { name, models } }: { provider: Provider }) {
  const { connection } = useSession()
  const listId = useId()
  const [result, setResult] = useState<{ ok: boolean; text: string } | null>(null)
  const test = useDo(async (values: FormData) => {
    setResult(null)
    const input = { name, model: textIn(values, 'model') ?? '' }
    const { testModelProvider } = await connection.ask(TEST_MODEL_PROVIDER, { input })
    setResult(payloadOf(testModelProvider, 'TestModelProviderPayload'))
  })
  return (
    <Form label={`Test ${name}`} submit="Test" isBusy={test.isBusy} error={test.error} onSubmit={test.start}>
      <TextField
        label="Model"
        name="model"
        required
        defaultValue={models.length === 1 ? models[0] : ''}
        list={listId}
        hint={
          models.length === 0
            ? 'The provider lists no models: enter a name.'
            : `${models.length === 1 ? '1 model' : `${models.length} models`} listed`
        }
      />
      <datalist id={listId}>
        {models.map((model) => (
          <option key={model} value={model} />
        ))}
      </datalist>
      <p role="status" className="hint" dir="auto">
        {result !== null && `${result.ok ? 'The model answered' : 'It failed'}: ${result.text}`}
      </p>
    </Form>
  )
}

function useSaving(onDone: () => void) {
  const { connection } = useSession()
  return useDo(async (input: { name: string; api: string; baseUrl?: string | null; apiKey?: string | null }) => {
    payloadOf((await connection.ask(SET_MODEL_PROVIDER, { input })).setModelProvider, 'SetModelProviderPayload')
    onDone()
  })
}

function NewProvider({ taken, onDone }: { taken: readonly string[]; onDone(): void }) {
  const offered = KNOWN.filter(({ name }) => !taken.includes(name))
  const [choice, setChoice] = useState<string>(offered[0]?.name ?? '')
  const known = offered.find(({ name }) => name === choice)
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
  return (
    <Form label="Add provider" submit="Add" isBusy={save.isBusy} error={save.error} onSubmit={submit}>
      <SelectField
        label="Provider"
        name="provider"
        value={choice}
        onChange={(event) => setChoice(event.target.value)}
        options={[...offered.map(({ name, words }) => [name, words] as const), ['', 'Another server']]}
      />
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
      <TextField
        label="Address"
        name="baseUrl"
        type="url"
        required={known === undefined}
        placeholder={known === undefined ? 'https://models.example.com/v1' : 'the usual one'}
        hint="With its version path"
      />
      <KeyField hint="Stored encrypted and never shown again. Self-hosted servers may need none." />
    </Form>
  )
}

function ChangedProvider({ provider, onDone }: { provider: Provider; onDone(): void }) {
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
      <TextField
        label="Address"
        name="baseUrl"
        type="url"
        defaultValue={baseUrl ?? ''}
        placeholder="the usual one"
        hint="With its version path"
      />
      <KeyField
        hint={
          hasKey
            ? 'A key is stored. Leave this empty to keep it; a change of the API or the address needs the key again.'
            : 'Stored encrypted and never shown again.'
        }
      />
    </Form>
  )
}

function KeyField({ hint }: { hint: string }) {
  return <TextField label="API key" name="apiKey" type="password" autoComplete="off" spellCheck={false} hint={hint} />
}

function Deletion({ name, onDone }: { name: string; onDone(): void }) {
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

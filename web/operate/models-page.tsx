import { Fragment, useId, useState } from 'react'
import { Link, useLocation, useSearch } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { wordsOfDuration } from '../ui/time.tsx'
import { MODEL_USE, MODELS, TEST_MODEL_PROVIDER } from './operations.ts'
import { ChangedProvider, NewProvider, ProviderDeletion } from './provider-form.tsx'
import {
  isSet,
  KNOWN,
  type KnownProvider,
  LOCAL_WORDS,
  type ModelUse,
  modelToTest,
  type Provider,
  placeOf,
  remedyOf,
  sortedProviders,
  usesOf,
  WITH_NEW_PROVIDER,
} from './providers.ts'

/** The task of the open dialog of the page. */
type Task =
  | { type: 'add'; known: KnownProvider | null }
  | { type: 'change'; provider: Provider }
  | { type: 'delete'; name: string }

function titleOf(task: Task | null): string {
  switch (task?.type) {
    case 'change':
      return `Change ${task.provider.name}`
    case 'delete':
      return `Delete ${task.name}`
    default:
      return task?.known == null ? 'Add provider' : `Set up ${task.known.words}`
  }
}

/**
 * Shows which model providers can be called and which agents use them, and can test them. Admins change the providers that they
 * added.
 */
export function ModelsPage() {
  const ask = useAsk(MODELS, {})
  const use = useAsk(MODEL_USE, {})
  const search = useSearch()
  const [, go] = useLocation()
  const [task, setTask] = useState<Task | null>(
    `?${search}` === WITH_NEW_PROVIDER ? { type: 'add', known: null } : null,
  )
  const close = () => {
    setTask(null)
    if (search !== '') go('/models', { replace: true })
  }
  const defaultModel = ask.data?.defaultModel ?? null
  const providers = ask.data?.modelProviders ?? []
  const { ready, failing } = sortedProviders(providers)
  const taken = providers.filter(isSet).map(({ name }) => name)
  const agents = use.data?.agents.edges.map(({ node }) => node) ?? []
  const rowOf = (provider: Provider) => (
    <ProviderRow
      key={provider.name}
      provider={provider}
      uses={usesOf(provider.name, agents, defaultModel)}
      onTask={setTask}
    />
  )
  return (
    <>
      <PageHead title="Models" note="Which models agents can use, and whether their providers answer">
        <Button look="primary" icon="plus" onClick={() => setTask({ type: 'add', known: null })}>
          Add provider
        </Button>
      </PageHead>
      <div className="page-scroll">
        {ask.data === undefined ? (
          <Unanswered what="model providers" ask={ask} />
        ) : (
          <>
            <section className="block card" aria-label="Ready">
              <h2>Ready</h2>
              {defaultModel !== null && <p className="hint">{wordsOfDefault(defaultModel, failing)}</p>}
              {ready.map(rowOf)}
              {use.data?.agents.pageInfo.hasNextPage === true && (
                <p className="hint">Shows only the use by the newest {agents.length} agents.</p>
              )}
            </section>
            {failing.length > 0 && (
              <section className="block card" aria-label="Not ready">
                <h2>Not ready</h2>
                <p className="hint">Runs with these models fail until the provider answers.</p>
                {failing.map(rowOf)}
              </section>
            )}
            <section className="block card" aria-label="Not set up">
              <h2>Not set up</h2>
              <ul className="unset-providers">
                {KNOWN.filter(({ name }) => !taken.includes(name)).map((known) => (
                  <li key={known.name} className="plain-row">
                    <span className="grow">
                      {known.words} {known.isLocal && <span className="note">{LOCAL_WORDS}</span>}
                      <AgentsWithout uses={usesOf(known.name, agents, null)} />
                    </span>
                    <Button onClick={() => setTask({ type: 'add', known })} aria-label={`Set up ${known.words}`}>
                      Set up
                    </Button>
                  </li>
                ))}
              </ul>
              <p className="hint">Another server? Click “Add provider”.</p>
            </section>
          </>
        )}
      </div>
      <Dialog title={titleOf(task)} open={task !== null && ask.data !== undefined} onOpenChange={close}>
        {task?.type === 'add' && <NewProvider known={task.known} taken={taken} onDone={close} />}
        {task?.type === 'change' && <ChangedProvider provider={task.provider} onDone={close} />}
        {task?.type === 'delete' && <ProviderDeletion name={task.name} onDone={close} />}
      </Dialog>
    </>
  )
}

/** The agents whose runs fail because their provider is not set up. */
function AgentsWithout({ uses }: { uses: readonly ModelUse[] }) {
  const agents = uses.flatMap((one) => one.agents)
  if (agents.length === 0) return null
  return (
    <span className="note">
      {' '}
      needed by <AgentLinks agents={agents} />
    </span>
  )
}

interface ProviderRowProps {
  provider: Provider
  uses: readonly ModelUse[]
  onTask(task: Task): void
}

function ProviderRow({ provider, uses, onTask }: ProviderRowProps) {
  const { name, ready, notReadyReason, fromEnvironment } = provider
  const trial = useTrial(provider)
  const [isChoosing, setChoosing] = useState(false)
  const suggested = modelToTest(provider, uses)
  const mayChange = name !== 'demo' && !fromEnvironment
  return (
    <section className="provider" aria-label={name}>
      <div className="plain-row">
        <span className={ready ? 'good' : 'bad'}>
          <Icon name={ready ? 'check' : 'cross'} size={16} />
        </span>
        <span className="grow">
          <h3>{name}</h3>
          <span className="note">{factsOf(provider)}</span>
        </span>
        <span className="provider-verbs">
          <Button
            isBusy={trial.isBusy}
            aria-label={`Test ${name}`}
            onClick={() => (suggested === null ? setChoosing(true) : trial.start(suggested))}
          >
            Test
          </Button>
          {mayChange && (
            <>
              <Button aria-label={`Change ${name}`} onClick={() => onTask({ type: 'change', provider })}>
                Change
              </Button>
              <IconButton label={`Delete ${name}`} icon="bin" onClick={() => onTask({ type: 'delete', name })} />
            </>
          )}
        </span>
      </div>
      <div className="provider-body">
        {!ready && trial.result === null && (
          <p className="bad">
            Cannot be called: {notReadyReason} {remedyOf(provider, notReadyReason ?? '')}
          </p>
        )}
        {ready && name !== 'demo' && provider.models.length === 0 && (
          <p className="hint">{wordsOfNoModels(provider)}</p>
        )}
        {uses.length > 0 && (
          <ul className="provider-uses">
            {uses.map((use) => (
              <Use key={use.model} use={use} />
            ))}
          </ul>
        )}
        <p role="status" className={trial.result?.ok === false ? 'bad' : ''} dir="auto">
          {trial.words}
        </p>
        <Refused error={trial.error} />
        {trial.result !== null && !isChoosing && provider.models.length !== 1 && (
          <Button look="quiet" onClick={() => setChoosing(true)}>
            Test another model
          </Button>
        )}
        {isChoosing && <TrialForm provider={provider} isBusy={trial.isBusy} onTest={trial.start} />}
      </div>
    </section>
  )
}

/** Shows where the provider is called, with which models, and who set it up. */
function factsOf(provider: Provider): string {
  const { name, ready, fromEnvironment, hasKey, models } = provider
  if (name === 'demo') return 'built in: scripted replies, for trials'
  const listed = models.length > 0 ? `${models.length} ${models.length === 1 ? 'model' : 'models'}` : null
  const key = hasKey ? 'has a key' : ready ? 'needs no key' : 'no key'
  const origin = fromEnvironment ? 'set by the environment' : null
  return [placeOf(provider), listed, key, origin].filter((fact) => fact !== null).join(' · ')
}

function wordsOfDefault(defaultModel: string, failing: readonly Provider[]): string {
  if (failing.some(({ name }) => defaultModel.startsWith(`${name}:`)))
    return `New agents use ${defaultModel}, whose provider cannot be called now: correct the provider, or choose another model for them.`
  if (defaultModel !== 'demo') return `New agents use ${defaultModel} unless you choose another model.`
  return 'New agents use the scripted model demo until a well-known provider has answered with your key. You can choose any other model for each agent.'
}

function wordsOfNoModels({ baseUrl }: Provider): string {
  const isVersionless = baseUrl !== null && !/\/v\d\w*\/?$/.test(baseUrl)
  return `The provider lists no models.${isVersionless ? ' Does its address end with a version, such as /v1?' : ''} Test a model.`
}

function Use({ use: { model, isDefault, agents } }: { use: ModelUse }) {
  return (
    <li>
      <code>{model}</code>
      {isDefault && <span className="kind">default</span>}
      <span className="note">
        {agents.length === 0 ? (
          'no agent uses it yet'
        ) : (
          <>
            used by <AgentLinks agents={agents} />
          </>
        )}
      </span>
    </li>
  )
}

const MOST_NAMED = 5

/** Links to the first agent of each name: “Noor (3), Tom and Iris”. */
function AgentLinks({ agents }: { agents: ModelUse['agents'] }) {
  const groups = [...Map.groupBy(agents, ({ name, isFallback }) => `${name} ${isFallback}`)]
  const shown = groups.slice(0, MOST_NAMED)
  const more = groups.slice(MOST_NAMED).reduce((sum, [, members]) => sum + members.length, 0)
  const lastAt = more > 0 ? shown.length : shown.length - 1
  return (
    <>
      {shown.map(([key, members], at) => (
        <Fragment key={key}>
          {at > 0 && (at === lastAt ? ' and ' : ', ')}
          <Link href={`/agents/${members[0]?.id}/settings`}>{members[0]?.name}</Link>
          {members.length > 1 && ` (${members.length})`}
          {members[0]?.isFallback && ' (fallback)'}
        </Fragment>
      ))}
      {more > 0 && ` and ${more} more`}
    </>
  )
}

interface TrialResult {
  ok: boolean
  words: string
}

/** Calls one model of a provider, and describes what happened. */
function useTrial(provider: Provider) {
  const { name } = provider
  const { connection } = useSession()
  const [model, setModel] = useState('')
  const [result, setResult] = useState<TrialResult | null>(null)
  const test = useDo(async (tested: string) => {
    setResult(null)
    setModel(tested)
    const since = performance.now()
    const { testModelProvider } = await connection.ask(TEST_MODEL_PROVIDER, { input: { name, model: tested } })
    const { ok, text } = payloadOf(testModelProvider, 'TestModelProviderPayload')
    const took = wordsOfDuration(performance.now() - since)
    setResult({ ok, words: ok ? `${tested} answered in ${took}: ${text}` : `${tested} did not answer: ${text}` })
  })
  const called =
    result === null || result.ok || name === 'demo'
      ? result?.words
      : `${result.words} ${remedyOf(provider, result.words)}`
  const words = called ?? (test.isBusy ? `Calling ${model}…` : '')
  return { start: test.start, isBusy: test.isBusy, error: test.error, result, words }
}

interface TrialFormProps {
  provider: Provider
  isBusy: boolean
  onTest(model: string): void
}

function TrialForm({ provider: { name, models }, isBusy, onTest }: TrialFormProps) {
  const listId = useId()
  return (
    <Form
      label={`Test a model from ${name}`}
      submit="Test this model"
      look="plain"
      isBusy={isBusy}
      error={null}
      onSubmit={(values) => onTest(textIn(values, 'model') ?? '')}
    >
      <TextField
        label="Model"
        name="model"
        required
        autoFocus
        list={listId}
        placeholder={models[0]}
        hint={models.length === 0 ? 'The provider lists no models: enter a name.' : 'Start typing to see its models.'}
      />
      <datalist id={listId}>
        {models.map((model) => (
          <option key={model} value={model} />
        ))}
      </datalist>
    </Form>
  )
}

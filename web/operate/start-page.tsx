import { useRef } from 'react'
import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { addressOf } from '../location.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { ACT_AS, DESCRIBED_SPACES, MODELS } from './operations.ts'
import { createScene, findScene, type Scene, sceneIn, startConversation } from './people.ts'
import { placeOf, sortedProviders, WITH_NEW_PROVIDER } from './providers.ts'

const LIST = new Intl.ListFormat('en')

/** The maximum number of models of one provider in the list. */
const MOST_OFFERED = 100

const wordsOfDefault = (model: string | null | undefined) =>
  model == null ? 'the server’s default' : `the server’s default: ${model}`

/** For an admin of a new server: creates an example space with three agents. */
export function StartPage() {
  const { data } = useAsk(MODELS, {})
  const providers = data?.modelProviders ?? []
  const { ready, failing } = sortedProviders(providers)
  const isOnlyDemo = ready.every(({ name }) => name === 'demo')
  const listed = providers
    .filter(({ name }) => name !== 'demo')
    .flatMap(({ name, models }) => models.slice(0, MOST_OFFERED).map((model) => `${name}:${model}`))
    .map((model) => [model, model] as const)
  return (
    <>
      <PageHead title="Get started" note="A conversation with three agents, in a minute" />
      <div className="page-scroll narrow-page">
        <TryIt models={[['', wordsOfDefault(data?.defaultModel)], ['demo', 'demo: built in, no key'], ...listed]} />
        <section className="block card">
          <h2>Models</h2>
          {data !== undefined && isOnlyDemo && (
            <p>
              Only <code>demo</code> is ready: it is scripted, deterministic, and needs no key. For a real model, add a
              provider with its key, or your own server such as Ollama. No restart is needed.
            </p>
          )}
          <ul className="rows" aria-label="Ready providers">
            {ready.map((provider) => (
              <li key={provider.name} className="plain-row">
                <Icon name="check" size={16} />
                <b>{provider.name}</b>
                <span className="note grow">{placeOf(provider)}</span>
                <span className="note">{provider.name === 'demo' ? 'built in' : 'ready'}</span>
              </li>
            ))}
          </ul>
          {failing.length > 0 && (
            <p>
              Not ready: {failing.map(({ name }) => name).join(', ')}. <Link href="/models">See why</Link>
            </p>
          )}
          <div className="form-end">
            <Link className="button" href={`/models${WITH_NEW_PROVIDER}`}>
              <Icon name="plus" size={16} /> Add a provider
            </Link>
          </div>
        </section>
        <section className="block card">
          <h2>Next steps</h2>
          <ul className="next">
            <li>
              Invite somebody else: add a person under <Link href="/people">People and access</Link>, and send them an
              invitation.
            </li>
            <li>
              Give an agent tools or another model, or create a persistent agent, under{' '}
              <Link href="/agents">Agents</Link>.
            </li>
            <li>
              Build your own front end: explore the API in <a href={addressOf('/graphql')}>GraphiQL</a>.
            </li>
          </ul>
        </section>
      </div>
    </>
  )
}

/** Creates the example space once. After that, links to it. */
function TryIt({ models }: { models: readonly (readonly [string, string])[] }) {
  const { connection, become, isHuman, humanId } = useSession()
  const [, go] = useLocation()
  const spaces = useAsk(DESCRIBED_SPACES, {})
  const isStarting = useRef(false)
  const start = useDo(async (values: FormData) => {
    try {
      const model = textIn(values, 'model')
      // Another tab may have created the example space.
      const made = await findScene(connection, humanId)
      if (made !== null) return await enter(made)
      if (isHuman) return go(`/spaces/${await createScene(connection, connection, model)}`)
      const { token, spaceId } = await startConversation(connection, textIn(values, 'name') ?? 'Ada', model)
      go(`/spaces/${spaceId}`)
      become(token)
    } finally {
      isStarting.current = false
    }
  })
  /** Ignores the second click of a double click. */
  const startOnce = (values: FormData) => {
    if (isStarting.current) return
    isStarting.current = true
    start.start(values)
  }
  /** The operator continues as the person of the example space. */
  async function enter({ spaceId, person }: Scene): Promise<void> {
    if (isHuman) return go(`/spaces/${spaceId}`)
    const acted = await connection.ask(ACT_AS, { humanId: person.id })
    const { secret, expiresAt } = payloadOf(acted.actAs, 'ActAsPayload')
    go(`/spaces/${spaceId}`)
    become(secret, expiresAt)
  }
  const scene = spaces.data === undefined ? undefined : sceneIn(spaces.data, humanId)
  return (
    <section className="block card">
      <h2>Try it</h2>
      {scene === undefined ? (
        <Unanswered what="the example" ask={spaces} />
      ) : scene === null ? (
        <>
          <p>
            Parley creates {isHuman ? '' : 'a person for you, and '}a space with three agents. You click three messages,
            and see what the agents do:
          </p>
          <ul className="next">
            <li>Iris reports the weather.</li>
            <li>Tom asks about open questions in the forecast.</li>
            <li>Noor orders what is missing, once you have approved it.</li>
          </ul>
          {!isHuman && (
            <p className="hint">
              The operator cannot write messages, so you continue as the person whom Parley creates for you.{' '}
              <em>Operator</em> at the bottom of the sidebar brings you back here.
            </p>
          )}
          <Form label="Try it" submit="Try it" isBusy={start.isBusy} error={start.error} onSubmit={startOnce}>
            {!isHuman && <TextField label="Your name" name="name" required defaultValue="Ada" maxLength={200} />}
            <SelectField
              label="The agents’ model"
              name="model"
              options={models}
              hint="Each agent’s model can be changed later, on its page."
            />
          </Form>
        </>
      ) : (
        <>
          <p>
            The example already exists: the space <b dir="auto">{scene.name}</b> with{' '}
            <span dir="auto">{LIST.format([isHuman ? 'you' : scene.person.name, ...scene.others])}</span>.
          </p>
          {!isHuman && (
            <p className="hint">
              The operator cannot write messages, so you act as {scene.person.name} for 30 minutes. <em>Stop</em> at the
              top of the page brings you back. Each agent’s model can be changed under <em>Agents</em>.
            </p>
          )}
          <Form
            label="Try it"
            submit={isHuman ? `Open ${scene.name}` : `Continue as ${scene.person.name}`}
            isBusy={start.isBusy}
            error={start.error}
            onSubmit={startOnce}
          >
            {null}
          </Form>
        </>
      )}
    </section>
  )
}

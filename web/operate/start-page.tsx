import { Link, useLocation } from 'wouter'
import { useAsk, useDo } from '../ask.ts'
import { addressOf } from '../location.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { MODELS } from './operations.ts'
import { createScene, startConversation } from './people.ts'
import { placeOf, sortedProviders, WITH_NEW_PROVIDER } from './providers.ts'

/** The maximum number of models of one provider in the list. */
const MOST_OFFERED = 100

const wordsOfDefault = (model: string | null | undefined) =>
  model == null ? 'the server’s default' : `the server’s default: ${model}`

/** For an admin of a new server: creates a conversation with three agents. */
export function StartPage() {
  const { connection, become, isHuman } = useSession()
  const [, go] = useLocation()
  const { data } = useAsk(MODELS, {})
  const start = useDo(async (values: FormData) => {
    const model = textIn(values, 'model')
    if (isHuman) return go(`/spaces/${await createScene(connection, connection, model)}`)
    const { token, spaceId } = await startConversation(connection, textIn(values, 'name') ?? 'Ada', model)
    go(`/spaces/${spaceId}`)
    become(token)
  })
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
        <section className="block card">
          <h2>Try it</h2>
          {isHuman ? (
            <p>
              Creates three agents (Iris, who reports the weather, Tom, who asks back, and Noor, who orders what you
              approve), and a space with them and you, with three messages to click.
            </p>
          ) : (
            <p>
              Creates a person for you, three agents (Iris, who reports the weather, Tom, who asks back, and Noor, who
              orders what you approve), and a space with all four. You continue as that person, with three messages to
              click; <em>Operator</em> at the bottom of the sidebar brings you back here.
            </p>
          )}
          <Form label="Try it" submit="Try it" isBusy={start.isBusy} error={start.error} onSubmit={start.start}>
            {!isHuman && <TextField label="Your name" name="name" required defaultValue="Ada" maxLength={200} />}
            <SelectField
              label="The agents’ model"
              name="model"
              options={[['', wordsOfDefault(data?.defaultModel)], ['demo', 'demo: built in, no key'], ...listed]}
              hint="Each agent’s model can be changed later, on its page."
            />
          </Form>
        </section>
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
              Invite somebody else: add a person under <em>People and access</em>, and send them an invitation.
            </li>
            <li>
              Give an agent tools or another model, or create a persistent agent, under <em>Agents</em>.
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

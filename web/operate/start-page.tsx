import { useLocation } from 'wouter'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { MODELS } from './operations.ts'
import { startConversation } from './people.ts'

/** For an operator of a new server: creates a conversation with two agents. */
export function StartPage() {
  const { connection, become } = useSession()
  const [, go] = useLocation()
  const { data } = useAsk(MODELS, {})
  const start = useDo(async (values: FormData) => {
    const { token, spaceId } = await startConversation(
      connection,
      textIn(values, 'name') ?? 'Ada',
      textIn(values, 'model'),
    )
    go(`/spaces/${spaceId}`)
    become(token)
  })
  const withKey = (data?.modelProviders ?? []).filter(({ name, hasKey }) => hasKey || name === 'demo')
  const isOnlyDemo = withKey.every(({ name }) => name === 'demo')
  return (
    <>
      <PageHead title="Get started" note="A conversation with two agents, in a minute" />
      <div className="page-scroll narrow-page">
        <section className="block card">
          <h2>Try it</h2>
          <p>
            Creates a person for you, two agents (Iris, who answers and may ask for your approval, and Tom, who asks
            back), and a space with all three. You continue as that person; <em>Operator</em> at the bottom of the side
            bar brings you back here.
          </p>
          <Form label="Try it" submit="Try it" isBusy={start.isBusy} error={start.error} onSubmit={start.start}>
            <TextField label="Your name" name="name" required defaultValue="Ada" maxLength={200} />
            <SelectField
              label="Their model"
              name="model"
              options={[
                ['', 'the server’s default'],
                ['demo', 'demo: built in, no key'],
              ]}
              hint="Each agent’s model can be changed later, on its page."
            />
          </Form>
        </section>
        <section className="block card">
          <h2>Models</h2>
          {isOnlyDemo && (
            <p>
              Only <code>demo</code> is available: it is scripted, deterministic, and needs no key. For a real model,
              set an API key or a local server, and restart Parley:
            </p>
          )}
          <pre>{`export OPENAI_API_KEY=sk-…                   # OpenAI
export PARLEY_DEFAULT_MODEL=openai:gpt-5-mini

export PARLEY_PROVIDERS='{ "ollama": {} }'   # this machine
export PARLEY_DEFAULT_MODEL=ollama:qwen3

npm start`}</pre>
          <ul className="rows">
            {(data?.modelProviders ?? []).map(({ name, api, baseUrl, hasKey, restsUntil }) => (
              <li key={name} className="plain-row">
                <Icon name={hasKey || name === 'demo' ? 'check' : 'cross'} size={16} />
                <b>{name}</b>
                <span className="note grow">{baseUrl ?? api}</span>
                <span className="note">
                  {restsUntil !== null
                    ? 'skipped for now: five failures in a minute'
                    : hasKey
                      ? 'has a key'
                      : name === 'demo'
                        ? 'built in'
                        : 'no key'}
                </span>
              </li>
            ))}
          </ul>
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
              Build your own front end: explore the API in <a href="/graphql">GraphiQL</a>.
            </li>
          </ul>
        </section>
      </div>
    </>
  )
}

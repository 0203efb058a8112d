import { useState } from 'react'
import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment, ConsoleAgentWebhooksQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { CodeBlock } from '../ui/code-block.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { AGENT_WEBHOOKS, CREATE_WEBHOOK, DELETE_WEBHOOK, TRIGGER_AGENT } from './operations.ts'
import { Secret } from './secret.tsx'

type Agent = ConsoleAgentSettingsFragment

/** Triggers an agent as a service would, and manages the webhooks with which services trigger it. */
export function WakeUp({ agent }: { agent: Agent }) {
  return (
    <>
      <TriggerNow agent={agent} />
      <Webhooks agent={agent} />
    </>
  )
}

function TriggerNow({ agent }: { agent: Agent }) {
  const { connection } = useSession()
  const [sent, setSent] = useState<{ runId: string | null } | null>(null)
  const wake = useDo(async (values: FormData) => {
    setSent(null)
    const payload = { text: textIn(values, 'text') ?? '' }
    const input = { agentId: agent.id, payload, serviceName: textIn(values, 'service') ?? 'console' }
    const { run } = payloadOf((await connection.ask(TRIGGER_AGENT, { input })).triggerAgent, 'TriggerAgentPayload')
    setSent({ runId: run?.id ?? null })
  })
  return (
    <section className="block card">
      <h2>Trigger the agent now</h2>
      <p className="hint">
        Sends an event to {agent.name}, as another system would through a webhook.{' '}
        {agent.mind === 'PERSISTENT'
          ? 'The event goes into the inbox of the agent, which reads it in its next run.'
          : 'A run starts at once.'}{' '}
        The run does not start in a space, so name the space for the answer in the event or in the agent’s instructions.
      </p>
      <Form label="Trigger" submit="Trigger" isBusy={wake.isBusy} error={wake.error} onSubmit={wake.start}>
        <AreaField
          label="Event"
          name="text"
          rows={3}
          required
          placeholder="Frost tonight: cover the tomatoes in the Garden."
          hint="Describe what happened. The agent reads this text."
        />
        <TextField
          label="Service name"
          name="service"
          defaultValue="console"
          hint="The sender of the event, e.g. weather station. The agent sees this name."
        />
      </Form>
      <p role="status">
        {sent !== null &&
          (sent.runId === null ? (
            <>
              The event is in the agent’s inbox. The run that reads it appears under{' '}
              <Link href={`/agents/${agent.id}/runs`}>Runs</Link>; until then, the event is under{' '}
              <Link href={`/agents/${agent.id}/mind`}>Memory</Link>.
            </>
          ) : (
            <Link href={`/runs/${sent.runId}`}>The agent woke. Open its run</Link>
          ))}
      </p>
    </section>
  )
}

/** A request that a shell can send, signed according to Standard Webhooks. */
const exampleOf = (url: string, secret: string) => `URL='${url}' SECRET='${secret}'
ID=event-1 BODY='{"text":"Frost tonight"}' TS=$(date +%s)
KEY=$(echo "\${SECRET#whsec_}" | base64 -d | xxd -p -c 256)
SIG=$(printf %s "$ID.$TS.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)
curl "$URL" -H 'content-type: application/json' -H "webhook-id: $ID" \\
  -H "webhook-timestamp: $TS" -H "webhook-signature: v1,$SIG" -d "$BODY"`

function Webhooks({ agent }: { agent: Agent }) {
  const { connection } = useSession()
  const [hook, setHook] = useState<{ url: string; secret: string } | null>(null)
  const make = useDo(async (values: FormData) => {
    setHook(null)
    const input = { agentId: agent.id, serviceName: textIn(values, 'serviceName') ?? '' }
    const made = payloadOf((await connection.ask(CREATE_WEBHOOK, { input })).createWebhook, 'CreateWebhookPayload')
    setHook({ url: made.webhook.url, secret: made.secret })
  })
  return (
    <section className="block card end-of-form">
      <h2>Webhooks</h2>
      <p className="hint">
        A webhook is a URL to which another system, such as a form or a monitoring system, posts JSON to wake{' '}
        {agent.name}. Each request is signed with the secret of the webhook, so nobody else can use the URL.
      </p>
      <Pages>{(page) => <WebhookRows agent={agent} page={page} />}</Pages>
      <Form label="New webhook" submit="Create webhook" isBusy={make.isBusy} error={make.error} onSubmit={make.start}>
        <TextField
          label="Name of the service"
          name="serviceName"
          required
          placeholder="weather station"
          hint="The system that will call the URL. The agent and the audit log see this name. The URL and the secret appear here after you create the webhook."
        />
      </Form>
      {hook !== null && (
        <>
          <Secret label="URL" value={hook.url} />
          <Secret label="Secret" value={hook.secret} isOnce />
          <details>
            <summary>Example: call it from a shell</summary>
            <p className="hint">
              The signature follows Standard Webhooks, for which there are libraries in most languages. A request with
              the same webhook-id wakes the agent only once.
            </p>
            <CodeBlock language="sh" code={exampleOf(hook.url, hook.secret)} />
          </details>
        </>
      )}
    </section>
  )
}

function WebhookRows({ agent, page }: { agent: Agent; page: PageOfList }) {
  const ask = useAsk(AGENT_WEBHOOKS, { agentId: agent.id, after: page.after })
  if (ask.data === undefined) return <Unanswered what="webhooks" ask={ask} />
  const { webhooks } = ask.data
  const hooks = (webhooks?.edges ?? []).map(({ node }) => node)
  if (hooks.length === 0 && page.after === null)
    return <p className="hint">No webhooks yet. Create the first one below.</p>
  return (
    <>
      <ul className="rows" aria-label="Webhooks">
        {hooks.map((hook) => (
          <WebhookRow key={hook.id} hook={hook} agentName={agent.name} />
        ))}
      </ul>
      {webhooks && (
        <More page={page} pageInfo={webhooks.pageInfo}>
          More webhooks
        </More>
      )}
    </>
  )
}

interface WebhookRowProps {
  hook: NonNullable<ConsoleAgentWebhooksQuery['webhooks']>['edges'][number]['node']
  agentName: string
}

function WebhookRow({ hook: { id, url, serviceName, lastUsedAt }, agentName }: WebhookRowProps) {
  const { connection } = useSession()
  const remove = useDo(async (_: null) =>
    payloadOf((await connection.ask(DELETE_WEBHOOK, { id })).deleteWebhook, 'DeleteWebhookPayload'),
  )
  return (
    <li className="plain-row">
      <span className="grow">
        <b>{serviceName}</b>{' '}
        <span className="note">
          {lastUsedAt === null ? (
            'never used'
          ) : (
            <>
              used <Moment at={lastUsedAt} />
            </>
          )}
        </span>
        <br />
        <code className="note">{url}</code>
      </span>
      <span className="block-verbs">
        <AskFirst
          title={`Delete the webhook of ${serviceName}?`}
          submit="Delete"
          isBusy={remove.isBusy}
          error={remove.error}
          onConfirm={(close) => remove.start(null, close)}
          button={(ask) => (
            <Button look="danger" onClick={ask} aria-label={`Delete the webhook of ${serviceName}`}>
              Delete
            </Button>
          )}
        >
          <p>
            {serviceName} can no longer wake {agentName}: its requests are refused from now on. This cannot be undone.
          </p>
        </AskFirst>
      </span>
    </li>
  )
}

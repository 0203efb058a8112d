import { useState } from 'react'
import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { CREATE_WEBHOOK, TRIGGER_AGENT } from './operations.ts'
import { Secret } from './secret.tsx'

/** Triggers an agent as a service, and creates webhooks with which services can do the same. */
export function WakeUp({ agent }: { agent: ConsoleAgentSettingsFragment }) {
  const { connection } = useSession()
  const [runId, setRunId] = useState<string | null>(null)
  const [isTold, setTold] = useState(false)
  const [hook, setHook] = useState<{ url: string; secret: string } | null>(null)
  const wake = useDo(async (values: FormData) => {
    const payload = { text: textIn(values, 'text') ?? '' }
    const input = { agentId: agent.id, payload, serviceName: textIn(values, 'service') ?? 'console' }
    const { run } = payloadOf((await connection.ask(TRIGGER_AGENT, { input })).triggerAgent, 'TriggerAgentPayload')
    setRunId(run?.id ?? null)
    setTold(true)
  })
  const make = useDo(async (values: FormData) => {
    const input = { agentId: agent.id, serviceName: textIn(values, 'serviceName') ?? '' }
    const made = payloadOf((await connection.ask(CREATE_WEBHOOK, { input })).createWebhook, 'CreateWebhookPayload')
    setHook({ url: made.webhook.url, secret: made.secret })
  })
  return (
    <>
      <section className="block">
        <h2>Trigger the agent</h2>
        <Form label="Trigger" submit="Trigger" isBusy={wake.isBusy} error={wake.error} onSubmit={wake.start}>
          <AreaField
            label="Event"
            name="text"
            rows={3}
            required
            placeholder="Frost tonight: cover the tomatoes in the Garden."
          />
          <TextField label="Service name" name="service" defaultValue="console" />
        </Form>
        <p role="status">
          {isTold &&
            (runId === null ? (
              'The event is in the agent’s inbox.'
            ) : (
              <Link href={`/runs/${runId}`}>The agent woke. Open its run</Link>
            ))}
        </p>
      </section>
      <section className="block">
        <h2>Webhook</h2>
        <p className="hint">A URL for signed requests: a service that knows the secret can trigger {agent.name}.</p>
        <Form label="New webhook" submit="Create webhook" isBusy={make.isBusy} error={make.error} onSubmit={make.start}>
          <TextField label="Name of the service" name="serviceName" required placeholder="weather station" />
        </Form>
        {hook !== null && (
          <>
            <Secret label="URL" value={hook.url} />
            <Secret label="Secret" value={hook.secret} isOnce />
          </>
        )}
      </section>
    </>
  )
}

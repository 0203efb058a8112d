import { useState } from 'react'
import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { CREATE_WEBHOOK, TRIGGER_AGENT } from './operations.ts'
import { Secret } from './secret.tsx'

/** Wakes an agent as a service would, and makes signed addresses by which services do. */
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
        <h2>Tell it something</h2>
        <Form label="Wake it" submit="Wake it" isBusy={wake.isBusy} error={wake.error} onSubmit={wake.start}>
          <AreaField
            label="What happened"
            name="text"
            rows={3}
            required
            placeholder="Frost tonight: cover the tomatoes in the Garden."
          />
          <TextField label="As the service" name="service" defaultValue="console" />
        </Form>
        <p role="status">
          {isTold &&
            (runId === null ? 'It is in its inbox.' : <Link href={`/runs/${runId}`}>It woke: look at its run</Link>)}
        </p>
      </section>
      <section className="block">
        <h2>Webhook</h2>
        <p className="hint">A signed address: whoever posts there with the secret wakes {agent.name}.</p>
        <Form label="New webhook" submit="Make one" isBusy={make.isBusy} error={make.error} onSubmit={make.start}>
          <TextField label="Name of the service" name="serviceName" required placeholder="weather station" />
        </Form>
        {hook !== null && (
          <>
            <Secret label="Address" value={hook.url} />
            <Secret label="Secret" value={hook.secret} isOnce />
          </>
        )}
      </section>
    </>
  )
}

// node examples/service/service.ts: a service that wakes an agent by a signed webhook, and answers its EXTERNAL tools.
// PARLEY_URL, PARLEY_SERVICE_TOKEN (createAccessToken with a service grant), WEBHOOK_URL and WEBHOOK_SECRET (createWebhook).
import { Webhook } from 'standardwebhooks'

const {
  PARLEY_URL = 'http://localhost:4000/graphql',
  PARLEY_SERVICE_TOKEN = '',
  WEBHOOK_URL = '',
  WEBHOOK_SECRET = '',
} = process.env

/** What this service can do, by the names of the tools. */
const TOOLS: Record<string, (input: Record<string, unknown>) => unknown> = {
  look_up_stock: ({ item }) => ({ item, left: 3 }),
}

/** Sends an operation as the service. @throws with the errors where there are any */
async function ask<Data>(query: string, variables: object): Promise<Data> {
  const response = await fetch(PARLEY_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${PARLEY_SERVICE_TOKEN}` },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = (await response.json()) as { data: Data; errors?: { message: string }[] }
  if (errors !== undefined) throw new Error(errors.map(({ message }) => message).join(' '))
  return data
}

/** Wakes the webhook's agent; answers with the run that it started. */
async function wake(payload: object): Promise<string | null> {
  const body = JSON.stringify(payload)
  const id = `evt_${crypto.randomUUID()}`
  const at = new Date()
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(WEBHOOK_SECRET).sign(id, at, body),
  }
  const response = await fetch(WEBHOOK_URL, { method: 'POST', headers, body })
  if (!response.ok) throw new Error(`the webhook answered ${response.status}`)
  const { runId = null } = (await response.json().catch(() => ({}))) as { runId?: string | null }
  return runId
}

interface Waiting {
  viewer: { pendingToolCalls: { id: string; toolName: string; input: Record<string, unknown> }[] }
}

/** Answers every call that waits for this service; answers with how many. */
async function answerAll(): Promise<number> {
  const { viewer } = await ask<Waiting>('{ viewer { pendingToolCalls { id toolName input } } }', {})
  for (const { id, toolName, input } of viewer.pendingToolCalls) {
    const result = TOOLS[toolName]?.(input) ?? { error: `This service does not know ${toolName}.` }
    const submit = `mutation ($id: ID!, $result: JSON!) {
      submitToolResult(input: { toolCallId: $id, result: $result }) { __typename ... on Error { message } }
    }`
    await ask(submit, { id, result })
    console.log(`answered ${toolName}: ${JSON.stringify(result)}`)
  }
  return viewer.pendingToolCalls.length
}

const runId = await wake({ text: 'The tomatoes are running low.' })
console.log(`woke ${runId ?? 'an agent that has it in its inbox'}`)
const EVERY_MS = 500
const giveUp = AbortSignal.timeout(60_000)
while ((await answerAll()) === 0 && !giveUp.aborted) await new Promise((resolve) => setTimeout(resolve, EVERY_MS))

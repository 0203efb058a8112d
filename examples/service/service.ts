// A service that wakes an agent with a signed webhook, and answers calls to the agent's EXTERNAL tools.
// Run `node examples/service/service.ts` with PARLEY_URL, PARLEY_SERVICE_TOKEN (createAccessToken with a service
// grant), WEBHOOK_URL and WEBHOOK_SECRET (createWebhook).
import { Webhook } from 'standardwebhooks'

const {
  PARLEY_URL = 'http://localhost:4000/graphql',
  PARLEY_SERVICE_TOKEN = '',
  WEBHOOK_URL = '',
  WEBHOOK_SECRET = '',
} = process.env

/** The tools that this service implements, by name. */
const TOOLS: Record<string, (input: Record<string, unknown>) => unknown> = {
  look_up_stock: ({ item }) => ({ item, left: 3 }),
}

/** Sends an operation as the service. @throws Error with the messages of all GraphQL errors */
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

/** Calls the agent's webhook. Returns the id of the started run, or null if the event was added to an inbox. */
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
  if (!response.ok) throw new Error(`the webhook responded with HTTP status ${response.status}`)
  const { runId = null } = (await response.json().catch(() => ({}))) as { runId?: string | null }
  return runId
}

interface Waiting {
  viewer: { pendingToolCalls: { id: string; toolName: string; input: Record<string, unknown> }[] }
}

/** Answers every call that waits for this service. Returns the number of calls. */
async function answerAll(): Promise<number> {
  const { viewer } = await ask<Waiting>('{ viewer { pendingToolCalls { id toolName input } } }', {})
  for (const { id, toolName, input } of viewer.pendingToolCalls) {
    const result = TOOLS[toolName]?.(input) ?? { error: `This service has no tool named ${toolName}.` }
    const submit = `mutation ($id: ID!, $result: JSON!) {
      submitToolResult(input: { toolCallId: $id, result: $result }) { __typename ... on Error { message } }
    }`
    await ask(submit, { id, result })
    console.log(`answered ${toolName}: ${JSON.stringify(result)}`)
  }
  return viewer.pendingToolCalls.length
}

const runId = await wake({ text: 'The tomatoes are running low.' })
console.log(runId === null ? 'added an event to the inbox of the agent' : `started run ${runId}`)
const EVERY_MS = 500
const giveUp = AbortSignal.timeout(60_000)
while ((await answerAll()) === 0 && !giveUp.aborted) await new Promise((resolve) => setTimeout(resolve, EVERY_MS))

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rawClient, TASKS } from '../doors/mcp-client.ts'
import { type AgUiEvent, askAgUi, eventsOf } from '../support/ag-ui.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'
import { createSpace, type Deployment, deploy, hasServices, type Json, type Person } from './deployed.ts'

const QUESTION = 'I ask for approval first.'
const ANSWER = 'It is deployed: each of the twelve parts answers, and the old ones have been stopped.'
const HALF = ANSWER.slice(0, 27)

const DEPLOY = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  execution: 'INTERNAL',
  approval: { quorum: 2 },
}
const CREATE_AGENT = `mutation ($input: CreateAgentInput!) {
  createAgent(input: $input) { ... on Error { message } ... on CreateAgentPayload { agent { id } } } }`
const DECIDE = `mutation ($input: DecideToolCallInput!) {
  decideToolCall(input: $input) { ... on Error { message } ... on DecideToolCallPayload { toolCall { approval { state } } } } }`
const MESSAGES = 'query ($id: ID!) { space(id: $id) { messages { edges { node { text sender { kind } } } } } }'

/** Stores the messages of an AG-UI stream as its clients do. */
function createAgUiMessages() {
  const messages = new Map<string, { role: string; content: string }>()
  return {
    take({ type, messageId, role, delta, messages: all }: AgUiEvent) {
      if (type === 'TEXT_MESSAGE_START')
        messages.set(messageId, { role, content: messages.get(messageId)?.content ?? '' })
      if (type === 'TEXT_MESSAGE_CONTENT') messages.get(messageId)!.content += delta
      if (type !== 'MESSAGES_SNAPSHOT') return
      messages.clear()
      for (const { id, role: by, content = '' } of all) messages.set(id, { role: by, content })
    },
    texts: () =>
      [...messages.values()]
        .filter(({ role, content }) => role === 'assistant' && content !== '')
        .map(({ content }) => content),
  }
}

/** Reads a stream of Open Responses to its end. Returns the texts that its deltas form. */
async function textsOfResponse(response: Response): Promise<string[]> {
  const texts: string[] = []
  for (const block of (await response.text()).split('\n\n')) {
    const data = /^data: (\{.*)$/m.exec(block)?.[1]
    const event = data === undefined ? null : JSON.parse(data)
    if (event?.type === 'response.output_text.delta')
      texts[event.output_index] = (texts[event.output_index] ?? '') + event.delta
  }
  return texts
}

describe.skipIf(!hasServices)('one conversation through every door', () => {
  let parley: Deployment
  let ada: Person
  let ben: Person
  let spaceId: string
  beforeAll(async () => {
    parley = await deploy('services', 2)
    ada = await parley.person('Ada')
    ben = await parley.person('Ben')
    const input = {
      name: 'Bot',
      instructions: 'Deploy.',
      model: 'openai.chat:test',
      addableBy: 'EVERYONE',
      tools: [{ ...DEPLOY, approval: { quorum: 2, approverIds: [ada.id, ben.id] } }],
    }
    const { data } = await parley.admin.ask<Json>(CREATE_AGENT, { input })
    spaceId = await createSpace(ada.at(0), [ben.id, data.createAgent.agent.id])
  })
  afterAll(() => parley?.close())

  test('is begun by MCP, approved by MCP and GraphQL, followed by AG-UI while a worker dies, and continued by Open Responses', async () => {
    const [first, second] = parley.apis as [Deployment['worker'], Deployment['worker']]
    const { promise: gate, resolve: goOn } = Promise.withResolvers<void>()
    const chunks = [`{"text":"${HALF}`, gate, `${ANSWER.slice(HALF.length)}"}`]
    parley.models.script(
      forAgent(
        'Bot',
        steps(
          [
            { toolCall: 'send_message', input: { text: QUESTION } },
            { toolCall: 'deploy', input: { to: 'production' } },
          ],
          [{ toolCall: 'send_message', chunks }],
          [{ text: 'Done.' }],
        ),
      ),
    )
    const mcp = rawClient(first, ada.token)
    const { space } = (await mcp.call('read_messages', { spaceId })).structuredContent
    const started = await mcp.call('send_message', { spaceId, text: 'Deploy!' }, { capabilities: TASKS })
    expect(started).toMatchObject({ resultType: 'task', status: 'working' })
    const { taskId } = started as { taskId: string }

    const messages = createAgUiMessages()
    const following = (async () => {
      const query = new URLSearchParams({ after: space.streamCursor, follow: 'true' })
      const response = await askAgUi(`${second.origin}/ag-ui/spaces/${spaceId}?${query}`, ada.token, null)
      let last: AgUiEvent = null
      for await (const event of eventsOf(response)) {
        messages.take(event)
        last = event
      }
      return last
    })()

    const call = await until('the call waits', async () => {
      const { structuredContent } = await mcp.call('list_pending')
      return structuredContent.calls[0]
    })
    const { toolCallId, inputDigest } = call
    const approval = { toolCallId, approve: true, inputDigest }
    expect((await mcp.call('decide', approval)).isError).not.toBe(true)
    expect((await mcp.call('list_pending')).structuredContent.calls).toEqual([])
    const { data } = await ben.at(1).ask<Json>(DECIDE, { input: approval })
    expect(data.decideToolCall).toMatchObject({ toolCall: { approval: { state: 'APPROVED' } } })

    await until('the half of the answer is shown', () => messages.texts().some((text) => text.includes(HALF)))
    await parley.worker.kill()
    const url = `${second.origin}/v1/responses/${taskId.replace('msg_', 'resp_')}?stream=true`
    const rejoined = await fetch(url, { headers: { authorization: `Bearer ${ada.token}` } })
    expect(rejoined.status).toBe(200)
    await parley.startWorker()
    goOn()

    expect(await following).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    const shown: Json = await ada.at(0).ask(MESSAGES, { id: spaceId })
    const written: string[] = shown.data.space.messages.edges.flatMap(({ node }: Json) =>
      node.sender.kind === 'AGENT' && node.text !== '' ? [node.text] : [],
    )
    // The message of the dead worker remains, marked as interrupted.
    expect(written).toEqual([QUESTION, HALF, ANSWER])
    expect(messages.texts()).toEqual(written)
    expect(await textsOfResponse(rejoined)).toEqual(written)
    const { message } = await mcp.ask('tasks/get', { taskId }, { capabilities: TASKS })
    expect(message.result).toMatchObject({ status: 'completed', result: { structuredContent: { taskId } } })
    const { replies } = message.result.result.structuredContent
    expect(replies.flatMap(({ text }: Json) => (text === '' ? [] : [text]))).toEqual(written)
  })
})

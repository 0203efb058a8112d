import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One task of the server. Tests can change it. */
export interface PlayedTask {
  id: string
  contextId: string
  state: string
  /** The text in the status of the task. */
  status: string
  artifacts: { id: string; text: string }[]
  /** The messages of the task, oldest first. */
  received: { messageId: string; text: string; taskId?: string }[]
}

/** An agent that supports A2A 1.0 over JSON-RPC, and is controlled by tests. */
export interface A2aServer {
  origin: string
  cardUrl: string
  tasks: PlayedTask[]
  /** Every request that was received, oldest first. */
  requests: { method: string; params: Record<string, unknown>; headers: IncomingHttpHeaders }[]
  /** Fields of the card that replace the usual ones. */
  card: Record<string, unknown>
  /**
   * Called for each message. By default, the task completes and repeats the text. Returns a message if the answer has no task.
   */
  onMessage(task: PlayedTask, text: string): unknown
  /** Whether the server lists its tasks. */
  lists: boolean
  /** Whether the server answers a repeated message with the task of the first one. */
  deduplicates: boolean
  /** If set, the server sends responses to messages only when this resolves. */
  held: Promise<void> | null
  /** Can send a faulty response to a request. Returns whether it did. */
  aside: ((method: string, response: ServerResponse) => boolean) | null
  /** Publishes a change of a task to the clients that follow it. */
  say(task: PlayedTask, text: string): void
  /** Replaces the text that the task has sent so far. */
  replace(task: PlayedTask, text: string): void
  end(task: PlayedTask, state: string, status?: string): void
  /** Writes to the streams of all tasks. */
  write(text: string): void
  /** Breaks the streams of all tasks. */
  breakStreams(): void
  methods(): string[]
  reset(): void
  close(): Promise<void>
}

const AT_REST = /COMPLETED|FAILED|CANCELED|REJECTED|REQUIRED/

export async function startA2aServer(): Promise<A2aServer> {
  const streams = new Set<{ taskId: string; response: ServerResponse }>()
  let count = 0

  const messageOf = (text: string) => ({ messageId: `s-${++count}`, role: 'ROLE_AGENT', parts: [{ text }] })
  const statusOf = ({ state, status }: PlayedTask) => ({
    state: `TASK_STATE_${state}`,
    ...(status === '' ? {} : { message: messageOf(status) }),
  })
  const taskOf = (task: PlayedTask) => ({
    id: task.id,
    contextId: task.contextId,
    status: statusOf(task),
    artifacts: task.artifacts.map(({ id, text }) => ({ artifactId: id, parts: [{ text }] })),
    history: task.received.map(({ messageId, text }) => ({ messageId, role: 'ROLE_USER', parts: [{ text }] })),
  })
  const refusal = (code: number, message: string) => ({ error: { code, message } })

  function publish(task: PlayedTask, event: object): void {
    for (const { taskId, response } of streams)
      if (taskId === task.id) response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: event })}\n\n`)
  }

  function receive(message: Record<string, unknown>): object {
    const { messageId, taskId, contextId, parts } = message as Record<string, string> & { parts: { text: string }[] }
    const text = (parts as unknown as { text: string }[]).map((part) => part.text).join('')
    const known = server.tasks.find(({ received }) => received.some((one) => one.messageId === messageId))
    if (server.deduplicates && known !== undefined) return { result: { task: taskOf(known) } }
    let task = server.tasks.find(({ id }) => id === taskId)
    if (taskId !== undefined && task === undefined) return refusal(-32001, 'no such task')
    if (task !== undefined && task.state !== 'INPUT_REQUIRED') return refusal(-32004, 'the task has ended')
    if (task === undefined) {
      task = {
        id: `task-${++count}`,
        contextId: contextId ?? `context-${count}`,
        state: 'WORKING',
        status: '',
        artifacts: [],
        received: [],
      }
      server.tasks.push(task)
    }
    task.state = 'WORKING'
    task.status = ''
    task.received.push({ messageId: messageId ?? '', text, ...(taskId === undefined ? {} : { taskId }) })
    const answer = server.onMessage(task, text)
    return { result: typeof answer === 'object' && answer !== null ? { message: answer } : { task: taskOf(task) } }
  }

  function answer(method: string, params: Record<string, unknown>, response: ServerResponse): object | null {
    if (method === 'SendMessage') return receive(params['message'] as Record<string, unknown>)
    if (method === 'ListTasks' && !server.lists) return refusal(-32601, 'no such method')
    if (method === 'ListTasks') {
      const { contextId } = params
      const found = server.tasks.filter((task) => contextId === undefined || task.contextId === contextId)
      return {
        result: { tasks: found.toReversed().map(taskOf), nextPageToken: '', pageSize: 20, totalSize: found.length },
      }
    }
    const task = server.tasks.find(({ id }) => id === params['id'])
    if (task === undefined) return refusal(-32001, 'no such task')
    if (method === 'GetTask') return { result: taskOf(task) }
    if (method === 'CancelTask') {
      if (AT_REST.test(task.state)) return refusal(-32002, 'the task has ended')
      server.end(task, 'CANCELED')
      return { result: taskOf(task) }
    }
    if (method !== 'SubscribeToTask') return refusal(-32601, 'no such method')
    if (AT_REST.test(task.state)) return refusal(-32004, 'the task has ended')
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const stream = { taskId: task.id, response }
    streams.add(stream)
    response.on('close', () => streams.delete(stream))
    publish(task, { task: taskOf(task) })
    return null
  }

  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const isCard = request.method === 'GET'
    const { method, params } = isCard
      ? { method: 'card', params: {} }
      : (JSON.parse(Buffer.concat(chunks).toString()) as { method: string; params: Record<string, unknown> })
    server.requests.push({ method, params, headers: request.headers })
    if (server.aside?.(method, response) === true) return
    const answered = isCard ? cardOf() : answer(method, params, response)
    if (answered === null) return
    if (method === 'SendMessage') await server.held
    const body = isCard ? answered : { jsonrpc: '2.0', id: 1, ...answered }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })

  const cardOf = () => ({
    name: 'Weather',
    description: 'Knows the weather.',
    version: '1',
    supportedInterfaces: [{ url: `${server.origin}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true },
    skills: [{ id: 'weather', name: 'Weather', description: '', tags: [] }],
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    ...server.card,
  })

  const echo = (task: PlayedTask, text: string) => {
    task.artifacts = [{ id: `artifact-${task.id}`, text: `You said: ${text}` }]
    task.state = 'COMPLETED'
  }

  const server: A2aServer = {
    origin: '',
    cardUrl: '',
    tasks: [],
    requests: [],
    card: {},
    onMessage: echo,
    lists: true,
    deduplicates: false,
    held: null,
    aside: null,
    say(task, text) {
      const artifact = task.artifacts.at(-1)
      if (artifact === undefined) task.artifacts.push({ id: `artifact-${task.id}`, text })
      else artifact.text += text
      const { id } = task.artifacts.at(-1) as { id: string }
      publish(task, {
        artifactUpdate: {
          taskId: task.id,
          contextId: task.contextId,
          artifact: { artifactId: id, parts: [{ text }] },
          append: artifact !== undefined,
        },
      })
    },
    replace(task, text) {
      const id = `artifact-${task.id}`
      task.artifacts = [{ id, text }]
      const artifact = { artifactId: id, parts: [{ text }] }
      publish(task, { artifactUpdate: { taskId: task.id, contextId: task.contextId, artifact, append: false } })
    },
    end(task, state, status = '') {
      Object.assign(task, { state, status })
      publish(task, { statusUpdate: { taskId: task.id, contextId: task.contextId, status: statusOf(task) } })
      for (const { taskId, response } of streams) if (taskId === task.id) response.end()
    },
    write(text) {
      for (const { response } of streams) response.write(text)
    },
    breakStreams() {
      for (const { response } of streams) response.destroy()
    },
    methods: () => server.requests.map(({ method }) => method),
    reset() {
      Object.assign(server, { tasks: [], requests: [], card: {}, onMessage: echo, aside: null })
      Object.assign(server, { lists: true, deduplicates: false, held: null })
    },
    async close() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  server.origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  server.cardUrl = `${server.origin}/card.json`
  return server
}

import { type AgentSubscriber, type BaseEvent, EventType, HttpAgent, type Message } from '@ag-ui/client'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { RULE_STACKS } from '../../test/support/application.ts'
import { runsOf } from '../../test/support/effort.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { until } from '../../test/support/until.ts'

const CUTS = runsOf({ usual: 10, nightly: 1000 })
/** Long enough for the stream to have many events, each of which can be cut. */
const ANSWER = 'An answer that is streamed in many small pieces, so that cuts fall into the middle of it.'

const LOOK_UP = {
  name: 'look_up',
  description: 'Looks up.',
  inputSchema: { type: 'object' },
  execution: 'INTERNAL' as const,
  visible: true,
}
const ANSWERS = [
  [{ toolCall: 'send_message', input: { text: ANSWER }, chunks: 3, delayMs: 1 }],
  [{ toolCall: 'look_up', input: { word: 'cut' } }],
  [{ toolCall: 'send_message', input: { text: `Then: ${ANSWER}` }, chunks: 7, delayMs: 1 }],
]

/**
 * Returns a `fetch` that breaks each connection after as many bytes as `nextCut` returns, unless that is null, and the number
 * of cuts.
 */
function createCutter(nextCut: () => number | null) {
  let cuts = 0
  const fetchCut: typeof fetch = async (url, init) => {
    const response = await fetch(url, init)
    const bytes = nextCut()
    if (bytes === null || response.body === null) return response
    const reader = response.body.getReader()
    let left = bytes
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        controller.enqueue(value.subarray(0, left))
        left -= value.length
        if (left > 0) return
        cuts += 1
        controller.close()
        await reader.cancel().catch(() => {})
      },
    })
    return new Response(body, { status: response.status, headers: response.headers })
  }
  return { fetch: fetchCut, cuts: () => cuts }
}

/** A client that rejoins when its connection breaks. */
class RejoiningAgent extends HttpAgent {
  readonly events: BaseEvent[] = []
  /** The cursor of the last event that was applied to the messages. */
  #cursor: string | null = null
  #hasFinished = false

  /** Runs the agent, and rejoins until the run has finished. */
  async runToEnd(): Promise<void> {
    this.#hasFinished = false
    this.#cursor = null
    while (!this.#hasFinished)
      await this.#runOnce().catch((error) => {
        // A broken stream ends in the middle of an event, which is a SyntaxError. Other errors would occur again at each
        // attempt.
        if (!(error instanceof SyntaxError)) throw error
      })
  }

  async #runOnce(): Promise<void> {
    let received: string | null = null
    const onEvent: AgentSubscriber['onEvent'] = ({ event }) => {
      this.events.push(event)
      // The events before this one have been applied. If the stream breaks, the client can drop the event that it is applying.
      this.#cursor = received ?? this.#cursor
      received = event.rawEvent?.cursor ?? received
      if (event.type === EventType.RUN_FINISHED || event.type === EventType.RUN_ERROR) this.#hasFinished = true
    }
    const rejoins = this.#cursor === null ? {} : { forwardedProps: { parley: { after: this.#cursor } } }
    await this.runAgent(rejoins, { onEvent })
    this.#cursor = received ?? this.#cursor
  }
}

const userMessage = (content: string): Message => ({ id: crypto.randomUUID(), role: 'user', content })

/** A response of a connection that breaks after these events. */
const responseOf = (events: readonly BaseEvent[]) =>
  new Response(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  })

/** Returns the content of a conversation, without the ids. */
const contentOf = (messages: readonly Message[]) =>
  messages.map((message) => ({
    role: message.role,
    content: message.content ?? '',
    calls: message.role === 'assistant' ? (message.toolCalls ?? []).map((call) => call.function) : [],
  }))

describe.each(RULE_STACKS)('@ag-ui/client on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({
      stack,
      settings: {
        PARLEY_DELTA_MS: '0',
        PARLEY_DIRECTORY: 'everyone',
        PARLEY_MAX_NEW_SPACES_PER_DAY: '10000',
        PARLEY_RATE_MESSAGES: '0',
        PARLEY_RATE_REQUESTS: '0',
      },
    })
  })
  afterAll(() => parley?.close())

  test(
    `a client that is cut ${CUTS} times has the same messages as one that is not`,
    async () => {
      // Hide the errors that the client prints for the cut streams.
      vi.spyOn(console, 'error').mockImplementation(() => {})
      const ana = await parley.human('Ana')
      const bot = await parley.agent('Bot', { tools: [LOOK_UP] })
      const headers = { authorization: `Bearer ${await parley.tokenOf(ana)}` }
      const url = `${parley.origin}/ag-ui/agents/${bot.id}`
      parley.models.script(({ step }) => ANSWERS[step] ?? [{ text: 'Done.' }])

      const initialMessages = [userMessage('Question')]
      const uncut = new RejoiningAgent({ url, headers, threadId: 'uncut', initialMessages })
      await uncut.runToEnd()
      expect(contentOf(uncut.messages)).toMatchObject([
        { role: 'user' },
        { role: 'assistant', content: ANSWER },
        { role: 'assistant', calls: [{ name: 'look_up' }] },
        { role: 'tool' },
        { role: 'assistant', content: `Then: ${ANSWER}` },
      ])

      // Some cuts come so early that the client has received nothing new since the previous one.
      const cutter = createCutter(() => (Math.random() < 0.15 ? null : Math.ceil(Math.random() * 4000)))
      for (let turn = 0; cutter.cuts() < CUTS; turn += 1) {
        const config = { url, headers, threadId: `cut ${turn}` }
        const agent = new RejoiningAgent({
          ...config,
          initialMessages: [userMessage('Question')],
          fetch: cutter.fetch,
        })
        await agent.runToEnd()
        expect(contentOf(agent.messages)).toEqual(contentOf(uncut.messages))
        const reloaded = new HttpAgent(config)
        await reloaded.runAgent()
        expect(contentOf(reloaded.messages)).toEqual(contentOf(uncut.messages))
        expect(reloaded.messages.map(({ id }) => id)).toEqual(agent.messages.map(({ id }) => id))
      }
    },
    120_000 + CUTS * 600,
  )

  test('a client that is cut after any event has the same messages when it has rejoined', async () => {
    const [ana, ben] = await Promise.all([parley.human('Ana'), parley.human('Ben')])
    const bot = await parley.agent('Bot', { tools: [LOOK_UP] })
    const space = await parley.space(ana, [ben.id, bot.id])
    const config = {
      url: `${parley.origin}/ag-ui/spaces/${space.id}`,
      headers: { authorization: `Bearer ${await parley.tokenOf(ana)}` },
      threadId: 'every event',
    }
    const asked = Promise.withResolvers<void>()
    const bensIsSent = Promise.withResolvers<void>()
    let isAsked = false
    parley.models.script(async ({ step }) => {
      // Only the run that Ana's message starts has an answer.
      if (step === 0 && isAsked) return [{ text: 'Done.' }]
      isAsked = true
      asked.resolve()
      await bensIsSent.promise
      return ANSWERS[step] ?? [{ text: 'Done.' }]
    })
    const initialMessages = [userMessage('Question')]
    const uncut = new RejoiningAgent({ ...config, initialMessages })
    void asked.promise.then(() => parley.send(ben, space.id, 'I am here too.')).then(() => bensIsSent.resolve())
    await uncut.runToEnd()
    await until('no run is left', async () => {
      const left = await parley.app.platform.db.prisma.run.count({ where: { agentId: bot.id, finishedAt: null } })
      return left === 0
    })
    const reloaded = new RejoiningAgent(config)
    await reloaded.runToEnd()
    expect(contentOf(reloaded.messages)).toMatchObject([
      { role: 'user', content: 'Question' },
      { role: 'user', content: 'I am here too.' },
      { content: ANSWER },
      { calls: [{ name: 'look_up' }] },
      { role: 'tool' },
      { content: `Then: ${ANSWER}` },
    ])
    for (const { events } of [uncut, reloaded])
      for (const [index] of events.entries()) {
        const received = events.slice(0, index + 1)
        let isFirst = true
        const agent = new RejoiningAgent({
          ...config,
          initialMessages,
          fetch: async (...request) => {
            if (!isFirst) return fetch(...request)
            isFirst = false
            return responseOf(received)
          },
        })
        await agent.runToEnd()
        const last = `after ${index} ${received.at(-1)!.type}`
        expect(contentOf(agent.messages), last).toEqual(contentOf(reloaded.messages))
        expect(agent.messages.map(({ id }) => id)).toEqual(reloaded.messages.map(({ id }) => id))
      }
  })
})

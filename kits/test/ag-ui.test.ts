import { EventType, HttpAgent, type Message } from '@ag-ui/client'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { STACKS } from '../../test/support/application.ts'
import { runsOf } from '../../test/support/effort.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

const CUTS = runsOf({ usual: 30, nightly: 1000 })
/** Enough events for a stream to be cut in any of them. */
const ANSWER = 'An answer that is streamed in many small pieces, so that cuts fall into the middle of it.'

/** A client whose connection breaks after some bytes, as often as `nextCut` returns a number. */
class CutAgent extends HttpAgent {
  cursor: string | null = null
  hasFinished = false
  cuts = 0
  constructor(config: ConstructorParameters<typeof HttpAgent>[0], nextCut: () => number | null) {
    super(config)
    this.fetch = async (url, init) => {
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
          this.cuts += 1
          controller.close()
          await reader.cancel().catch(() => {})
        },
      })
      return new Response(body, { status: response.status, headers: response.headers })
    }
    this.subscribe({
      onEvent: ({ event }) => {
        this.cursor = event.rawEvent?.cursor ?? this.cursor
        if (event.type === EventType.RUN_FINISHED || event.type === EventType.RUN_ERROR) this.hasFinished = true
      },
    })
  }

  /** Runs, and rejoins until the run has finished. */
  async runToEnd(text: string): Promise<void> {
    this.addMessage({ id: crypto.randomUUID(), role: 'user', content: text })
    this.hasFinished = false
    this.cursor = null
    while (!this.hasFinished) {
      const rejoins = this.cursor === null ? {} : { forwardedProps: { parley: { after: this.cursor } } }
      await this.runAgent(rejoins).catch(() => {})
    }
  }
}

/** What a conversation says, without the ids. */
const contentOf = (messages: readonly Message[]) =>
  messages.map((message) => ({
    role: message.role,
    content: message.content ?? '',
    calls: message.role === 'assistant' ? (message.toolCalls ?? []).map((call) => call.function) : [],
  }))

describe.each(STACKS)('@ag-ui/client on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({
      stack,
      settings: { PARLEY_DELTA_MS: '0', PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_REQUESTS: '0' },
    })
  })
  afterAll(() => parley?.close())

  test(`a client that is cut ${CUTS} times has the same messages as one that is not`, async () => {
    // The client prints that its streams were cut.
    vi.spyOn(console, 'error').mockImplementation(() => {})
    const ana = await parley.human('Ana')
    const bot = await parley.agent('Bot', {
      tools: [
        {
          name: 'look_up',
          description: 'Looks up.',
          inputSchema: { type: 'object' },
          execution: 'INTERNAL',
          visible: true,
        },
      ],
    })
    const headers = { authorization: `Bearer ${await parley.tokenOf(ana)}` }
    const url = `${parley.origin}/ag-ui/agents/${bot.id}`
    const answers = [
      [{ toolCall: 'send_message', input: { text: ANSWER }, chunks: 3, delayMs: 1 }],
      [{ toolCall: 'look_up', input: { word: 'cut' } }],
      [{ toolCall: 'send_message', input: { text: `Then: ${ANSWER}` }, chunks: 7, delayMs: 1 }],
    ]
    parley.models.script(({ step }) => answers[step] ?? [{ text: 'Done.' }])

    const uncut = new CutAgent({ url, headers, threadId: 'uncut' }, () => null)
    await uncut.runToEnd('Question')
    expect(uncut.cuts).toBe(0)
    expect(contentOf(uncut.messages)).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: ANSWER },
      { role: 'assistant', calls: [{ name: 'look_up' }] },
      { role: 'tool' },
      { role: 'assistant', content: `Then: ${ANSWER}` },
    ])

    let cuts = 0
    for (let turn = 0; cuts < CUTS; turn += 1) {
      const threadId = `cut ${turn}`
      // Sometimes a client is cut again before it has received anything new.
      const agent = new CutAgent({ url, headers, threadId }, () =>
        Math.random() < 0.15 ? null : Math.ceil(Math.random() * 4000),
      )
      await agent.runToEnd('Question')
      cuts += agent.cuts
      expect(contentOf(agent.messages)).toEqual(contentOf(uncut.messages))
      const reloaded = new HttpAgent({ url, headers, threadId })
      await reloaded.runAgent()
      expect(contentOf(reloaded.messages)).toEqual(contentOf(uncut.messages))
      expect(reloaded.messages.map(({ id }) => id)).toEqual(agent.messages.map(({ id }) => id))
    }
  })
})

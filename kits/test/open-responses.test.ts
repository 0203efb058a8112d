import { createOpenResponses } from '@ai-sdk/open-responses'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../../test/support/application.ts'
import { runsOf } from '../../test/support/effort.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

const CUTS = runsOf({ usual: 10, nightly: 1000 })
const TEXTS = ['A first answer in many small pieces.', 'And a second one, which is longer than the first one was.']

describe.each(RULE_STACKS)('clients of OpenAI on the %s stack', (stack) => {
  let parley: TestServer
  let client: OpenAI
  let model: string
  let token: string
  beforeAll(async () => {
    const rates = { PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_REQUESTS: '0', PARLEY_MAX_NEW_SPACES_PER_DAY: '0' }
    parley = await startTestServer({ stack, settings: { PARLEY_DELTA_MS: '0', ...rates } })
    const ana = await parley.human('Ana')
    model = (await parley.agent('Bot')).id
    token = await parley.tokenOf(ana)
    client = new OpenAI({ baseURL: `${parley.origin}/v1`, apiKey: token, maxRetries: 0 })
    parley.models.script(({ step }) =>
      step < TEXTS.length
        ? [{ toolCall: 'send_message', input: { text: TEXTS[step] }, chunks: 3, delayMs: 1 }]
        : [{ text: 'Done.' }],
    )
  })
  afterAll(() => parley?.close())

  /** Adds an event to the texts that the client has received. */
  function take(texts: string[], event: ResponseStreamEvent): void {
    if (event.type === 'response.output_item.added') texts[event.output_index] ??= ''
    if (event.type === 'response.output_text.delta')
      texts[event.output_index] = (texts[event.output_index] ?? '') + event.delta
    if (event.type === 'response.output_text.done') expect(texts[event.output_index]).toBe(event.text)
  }

  interface Heard {
    texts: string[]
    last: number
    id: string
    isOver: boolean
  }

  /** Receives some events of a response, and then breaks the connection. */
  async function receive(heard: Heard, events: AsyncIterable<ResponseStreamEvent>): Promise<void> {
    let left = Math.ceil(Math.random() * 12)
    for await (const event of events) {
      expect(event.sequence_number).toBeGreaterThan(heard.last)
      heard.last = event.sequence_number
      if (event.type === 'response.created') heard.id = event.response.id
      if (event.type === 'response.completed') heard.isOver = true
      take(heard.texts, event)
      left -= 1
      if (left <= 0) return
    }
  }

  test('openai lists the agents as models, and gets responses, streamed and not', async () => {
    const models = await client.models.list()
    expect(models.data.map(({ id }) => id)).toContain(model)
    const response = await client.responses.create({ model, input: 'Hi' })
    expect(response).toMatchObject({ status: 'completed', object: 'response', model })
    expect(response.output_text).toBe(TEXTS.join(''))
    const again = await client.responses.create({ model, input: 'Again', previous_response_id: response.id })
    expect(again.output_text).toBe(TEXTS.join(''))
    const got = await client.responses.retrieve(again.id)
    expect(got.output).toEqual(again.output)

    const streamed = client.responses.stream({ model, input: 'Stream' })
    const texts: string[] = []
    let last = -1
    for await (const event of streamed) {
      expect(event.sequence_number).toBeGreaterThan(last)
      last = event.sequence_number
      take(texts, event as ResponseStreamEvent)
    }
    expect(texts).toEqual(TEXTS)
    expect((await streamed.finalResponse()).output_text).toBe(TEXTS.join(''))
  })

  test('openai gets chat completions, and continues in the same conversation', async () => {
    const asked = [{ role: 'user' as const, content: 'One' }]
    const first = await client.chat.completions.create({ model, messages: asked })
    const { content } = first.choices[0]!.message
    expect(content).toBe(TEXTS.join('\n\n'))
    const history = [...asked, { role: 'assistant' as const, content }, { role: 'user' as const, content: 'Two' }]
    const stream = await client.chat.completions.create({
      model,
      messages: history,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let usage: unknown = null
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      usage = chunk.usage ?? usage
    }
    expect(text).toBe(TEXTS.join('\n\n'))
    expect(usage).toMatchObject({ total_tokens: expect.any(Number) })
    const asking = parley.models.requests.filter(({ step }) => step === 0).at(-1)!
    const prompt = asking.messages.map((message) => message.text).join('\n')
    expect(prompt).toContain('One')
    expect(prompt).toContain(TEXTS[1])
  })

  test('@ai-sdk/open-responses generates and streams', async () => {
    const provider = createOpenResponses({
      name: 'parley',
      url: `${parley.origin}/v1/responses`,
      apiKey: token,
    })
    const generated = await generateText({ model: provider(model), prompt: 'Generate' })
    expect(generated.text).toBe(TEXTS.join(''))
    const streamed = streamText({ model: provider(model), prompt: 'Stream' })
    let text = ''
    for await (const piece of streamed.textStream) text += piece
    expect(text).toBe(TEXTS.join(''))
    expect(await streamed.finishReason).toBe('stop')
  })

  test(
    `a background response that is cut ${CUTS} times has the same text as one that is not`,
    async () => {
      for (let cuts = 0; cuts < CUTS; ) {
        const heard: Heard = { texts: [], last: -1, id: '', isOver: false }
        await receive(heard, await client.responses.create({ model, input: 'Cut', background: true, stream: true }))
        while (!heard.isOver) {
          cuts += 1
          const { id, last } = heard
          await receive(heard, await client.responses.retrieve(id, { stream: true, starting_after: last }))
        }
        expect(heard.texts).toEqual(TEXTS)
      }
    },
    120_000 + CUTS * 600,
  )
})

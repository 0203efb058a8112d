import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import {
  CALLED,
  called,
  chunk,
  FINISHED,
  type RawAnswer,
  type RawModelServer,
  saying,
  startRawModelServer,
} from '../support/raw-model-server.ts'

// Response forms from public bug reports about servers with the Chat Completions API: vercel/ai#6687, #14277,
// QwenLM/qwen-code#6249, agentgateway#1989, ollama#15457, #7881, opencode#39968, OmniRoute#8210, hermes-agent#65631.

const DONE: RawAnswer = { events: [chunk({ content: 'done' }), FINISHED] }
const GET_RUNS = chunk({ tool_calls: [called('c0', 'get_my_runs', '{}')] })

/** Plays these responses in order, and then a closing text. */
const inOrder =
  (...answers: (readonly (object | string)[])[]) =>
  (n: number): RawAnswer =>
    answers[n] === undefined ? DONE : { events: answers[n] }

const spoken = saying('c1', 'spoken')
/** Two calls: get_my_runs, and then send_message. */
const TWO_CALLS: Record<string, (n: number) => RawAnswer> = {
  'two calls that both have index 0': inOrder([
    chunk({ tool_calls: [called('c1', 'get_my_runs', '{}')] }),
    chunk({ tool_calls: [saying('c2', 'spoken')] }),
    CALLED,
  ]),
  'two calls of one chunk that both have index 0': inOrder([
    chunk({ tool_calls: [called('c1', 'get_my_runs', '{}'), saying('c2', 'spoken')] }),
    CALLED,
  ]),
  'the same id for the calls of two steps': inOrder(
    [chunk({ tool_calls: [called('c1', 'get_my_runs', '{}')] }), CALLED],
    [chunk({ tool_calls: [saying('c1', 'spoken')] }), CALLED],
  ),
}
const WORKING: Record<string, (n: number) => RawAnswer> = {
  'empty arguments': inOrder(
    [chunk({ role: 'assistant', tool_calls: [called('c1', 'get_my_runs', '')] }), CALLED],
    [chunk({ tool_calls: [saying('c2', 'spoken')] }), CALLED],
  ),
  'arguments that are null at first': inOrder([
    chunk({ tool_calls: [called('c1', 'send_message', null)] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"text":"spoken"}' } }] }),
    CALLED,
  ]),
  'arguments that stay null': inOrder(
    [chunk({ tool_calls: [called('c1', 'get_my_runs', null)] }), CALLED],
    [chunk({ tool_calls: [saying('c2', 'spoken')] }), CALLED],
  ),
  'arguments as an object': inOrder([
    chunk({ tool_calls: [called('c1', 'send_message', { text: 'spoken' })] }),
    CALLED,
  ]),
  ...TWO_CALLS,
  'a call without index': inOrder([chunk({ tool_calls: [{ ...spoken, index: undefined }] }), CALLED]),
  'a call without id': inOrder([chunk({ tool_calls: [{ ...spoken, id: undefined }] }), CALLED]),
  'finish reason stop after a call': inOrder([chunk({ tool_calls: [spoken] }), FINISHED]),
  'no finish reason, but [DONE]': inOrder([chunk({ tool_calls: [spoken] })], [chunk({ content: 'done' })]),
  'error: null in each chunk': inOrder([
    { ...chunk({ tool_calls: [spoken] }), error: null },
    { ...CALLED, error: null },
  ]),
  'comments and CRLF': inOrder([
    ': keep-alive\r\n\r\n',
    `data: ${JSON.stringify(chunk({ tool_calls: [spoken] }))}\r\n\r\n`,
    ': OPENROUTER PROCESSING\n\n',
    `data: ${JSON.stringify(CALLED)}\r\n\r\n`,
  ]),
  'usage: null': inOrder([
    { ...chunk({ tool_calls: [spoken] }), usage: null },
    { ...CALLED, usage: null },
    { ...chunk({}), choices: [], usage: { prompt_tokens: 10, completion_tokens: null, total_tokens: 10 } },
  ]),
  "Azure's first chunk": inOrder([
    { id: '', object: '', created: 0, model: '', choices: [], prompt_filter_results: [{ prompt_index: 0 }] },
    chunk({ tool_calls: [spoken] }),
    CALLED,
  ]),
  'content as a list': inOrder([
    chunk({ content: [{ type: 'text', text: 'x' }] }),
    chunk({ tool_calls: [spoken] }),
    CALLED,
  ]),
  'a repeated name': inOrder([
    chunk({ tool_calls: [called('c1', 'send_message', '')] }),
    chunk({ tool_calls: [called('c1', 'send_message', '{"text":"spo')] }),
    chunk({ tool_calls: [{ index: 0, id: '', function: { name: '', arguments: 'ken"}' } }] }),
    CALLED,
  ]),
}

/** The provider's response to every request, the expected error of the run, and how often the provider is called. */
const FAILING: Record<string, { answer: RawAnswer; error: string | RegExp; calls: number; advice: RegExp }> = {
  'an error as a string': {
    answer: { events: [GET_RUNS, { error: 'STREAM_EXPLODED' }] },
    error: 'STREAM_EXPLODED',
    calls: 3,
    advice: /broke off/,
  },
  'error_type and error_message': {
    answer: { events: [{ ...chunk({}), choices: null, error_type: 'BadRequest', error_message: 'context too long' }] },
    error: 'context too long',
    calls: 1,
    advice: /too long for the model/,
  },
  'an error with a code of overload': {
    answer: { events: [{ ...chunk({}), choices: [], error: { code: 502, message: 'Worker limit reached (33/32)' } }] },
    error: 'Worker limit reached (33/32)',
    calls: 3,
    advice: /not available/,
  },
  'an exhausted quota in a stream': {
    answer: {
      events: [{ error: { message: 'quota exceeded', type: 'insufficient_quota', code: 'insufficient_quota' } }],
    },
    error: 'quota exceeded',
    calls: 1,
    advice: /no quota left/,
  },
  'an exhausted quota with status 429': {
    answer: {
      status: 429,
      contentType: 'application/json',
      body: '{"error":{"message":"You exceeded your quota.","type":"insufficient_quota","code":"insufficient_quota"}}',
    },
    error: 'You exceeded your quota. (HTTP 429)',
    calls: 1,
    advice: /no quota left/,
  },
  'a key that is refused': {
    answer: { status: 401, contentType: 'application/json', body: '{"error":"Bad key sk-abcdefgh12345678"}' },
    error: 'Bad key [removed] (HTTP 401)',
    calls: 1,
    advice: /did not accept this server's key/,
  },
  'a model that is unknown': {
    answer: { status: 404, contentType: 'application/json', body: '{"detail":"no such model"}' },
    error: 'no such model (HTTP 404)',
    calls: 1,
    advice: /does not offer this model/,
  },
  'a page of a proxy': {
    answer: {
      status: 403,
      contentType: 'text/html',
      body: '<!DOCTYPE html><html><head><title>Access denied</title></head><body>Ray 12</body></html>',
    },
    error: 'The provider sent a web page: Access denied (HTTP 403)',
    calls: 1,
    advice: /did not accept/,
  },
  'a page with status 200': {
    answer: { contentType: 'text/html', body: '<html><body><h1>Sign in</h1></body></html>' },
    error: 'The provider sent a web page: Sign in',
    calls: 1,
    advice: /broke off/,
  },
  'an error with status 200': {
    answer: { contentType: 'application/json', body: '{"error":{"message":"out of memory"}}' },
    error: 'out of memory',
    calls: 1,
    advice: /broke off/,
  },
  nothing: {
    answer: { events: [] },
    error: "The provider's stream ended before the answer was complete.",
    calls: 3,
    advice: /broke off/,
  },
  'text, and the stream is cut': {
    answer: { events: [chunk({ role: 'assistant', content: 'I will' })], done: false },
    error: "The provider's stream ended before the answer was complete.",
    calls: 3,
    advice: /broke off/,
  },
  'a refusal of a tool': {
    answer: {
      status: 400,
      contentType: 'application/json',
      body: `{"error":{"message":"Invalid schema for function 'read_messages': None is not of type 'object'.","type":"invalid_request_error"}}`,
    },
    error: /^Invalid schema.* \(HTTP 400\) The provider refused the definition of the tool read_messages\.$/,
    calls: 1,
    advice: /refused the request/,
  },
}

describe.each(RULE_STACKS)('a provider that sends, on the %s stack', (stack) => {
  let parley: TestApplication
  let server: RawModelServer
  let models = 0

  beforeAll(async () => {
    server = await startRawModelServer()
    const providers = { raw: { api: 'openai-chat', baseUrl: server.baseUrl, apiKey: 'a-key' } }
    parley = await startApplication({ stack, settings: { PARLEY_PROVIDERS: JSON.stringify(providers) } })
  })
  afterAll(async () => {
    await parley?.close()
    await server?.close()
  })

  async function runWith(answer: (n: number) => RawAnswer) {
    models += 1
    const model = `m${models}`
    server.play(model, answer)
    const { human, space } = await parley.room('Ada', { model: `raw:${model}` })
    const { runs } = await parley.send(human, space.id, 'Go')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const [, ...answers] = await parley.messages(space.id)
    const texts = answers.map(({ parts }) => (parts as { text?: string }[]).map(({ text }) => text).join())
    const requests = server.requests.get(model) ?? []
    return { run, human, space, texts, calls: requests.length, lastRequest: requests.at(-1) }
  }

  test.concurrent.each(Object.entries(WORKING))('%s works', async (_, answer) => {
    const { run, texts } = await runWith(answer)
    expect(run).toMatchObject({ status: 'COMPLETED', error: null })
    expect(texts).toEqual(['spoken'])
  })

  test.concurrent.each(Object.entries(TWO_CALLS))('%s: each call gets its own result', async (_, answer) => {
    const { lastRequest } = await runWith(answer)
    const results = lastRequest.messages.filter(({ role }: { role: string }) => role === 'tool')
    expect(results.map(({ content }: { content: string }) => Object.keys(JSON.parse(content))[0])).toEqual([
      'runs',
      'success',
    ])
  })

  test.concurrent.each(Object.entries(FAILING))(
    '%s fails with the provider’s message',
    async (_, { answer, error, calls: most }) => {
      const { run, calls } = await runWith(() => answer)
      expect(run).toMatchObject({
        status: 'FAILED',
        error: typeof error === 'string' ? error : expect.stringMatching(error),
      })
      expect(calls).toBe(most)
    },
  )
})

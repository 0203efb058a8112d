// Runs the scripted models of a randomized attack in a separate process, so that they use no time of the server or the test.
import { setPriority } from 'node:os'
import { startModelServer } from '../model-server.ts'
import { type ModelAction, type ModelRequest, steps } from '../model-server-script.ts'
import { oneOf, randomOf } from '../random-documents.ts'
import { manyItems, nastyText, nested } from './texts.ts'

const random = randomOf(Number(process.argv[2] ?? 1))
setPriority(10)
const server = await startModelServer()

const lastWords = ({ messages }: ModelRequest) => messages.findLast(({ role }) => role === 'user')?.text ?? ''

/** The actions of a broken or manipulated model. */
const RAVINGS: readonly (() => ModelAction[])[] = [
  () => [{ toolCall: 'send_message', input: { text: nastyText(random) }, chunks: 4000 }],
  () => [{ toolCall: `merger_${'x'.repeat(Math.floor(random() * 3000))}`, input: {} }],
  () => Array.from({ length: 20 }, () => ({ toolCall: 'read_messages', input: { limit: 1e9 } })),
  () => [{ toolCall: 'send_message', input: '{"text": "never ends' }],
  () => [{ toolCall: 'send_message', input: JSON.stringify(nested(300)) }],
  () => [{ text: nastyText(random), chunks: 8000 }],
  () => [{ reasoning: 'r'.repeat(50_000), chunks: 8000 }, { text: 'so' }],
  () => [{ error: 'overloaded', status: 400 }],
  () => [{ text: 'cut' }, { disconnect: true }],
  () => [{ usage: { inputTokens: -1e15, outputTokens: 1e30 } }, { text: 'cheap' }],
  () => [{ delayMs: 2000 }, { text: 'slow' }],
]

const SCRIPTS: Record<string, (request: ModelRequest) => ModelAction[]> = {
  echo: (request) =>
    request.step === 0
      ? [{ toolCall: 'send_message', input: { text: 'I am here, and this is what I answer.' } }]
      : [{ text: 'Done.' }],
  payer: (request) =>
    request.step === 0 && lastWords(request).includes('pay please')
      ? [{ toolCall: 'pay', input: { amount: request.n } }]
      : [{ text: 'Done.' }],
  asker: (request) =>
    request.step === 0 && lastWords(request).includes('ask please')
      ? [
          { toolCall: 'ask', input: { items: manyItems(5) } },
          { toolCall: 'fetch_it', input: {} },
        ]
      : [{ text: 'Done.' }],
  raver: (request) => (request.step < 3 ? oneOf(random, RAVINGS)() : [{ text: 'Done.' }]),
  mind: (request) => steps([{ toolCall: 'skip', input: { reason: 'Nothing to do.' } }])(request) as ModelAction[],
}

server.script((request) => {
  // Discards the recorded requests, because ten minutes of requests would fill the memory of this process.
  server.requests.length = 0
  return SCRIPTS[request.model]?.(request)
})
process.send?.({ baseUrl: server.baseUrl })

// Runs the local model in a separate process, so that it does not affect the measured ones. The model's name selects its
// output: `tokens-<count>-<every ms>` calls send_message with that many numbered tokens, and ends with a word; `prose-…` does
// the same with the tokens of a Markdown text, a different text for each request; `skips` skips, and `fails` fails.
import { startModelServer } from '../../test/support/model-server.ts'
import { type Generation, now } from './model.ts'
import { proseOf } from './prose.ts'

const generations: Generation[] = []
const server = await startModelServer()

server.script((request) => {
  // Discards the recorded requests, which take more than a gigabyte after half an hour.
  server.requests.length = 0
  const [, what, count, every] = /^(tokens|prose)-(\d+)-(\d+)$/.exec(request.model) ?? []
  if (request.model === 'fails') return [{ error: 'overloaded', status: 400 }]
  if (request.model === 'skips' && request.step === 0) return [{ toolCall: 'skip', input: { reason: 'Not mine.' } }]
  if (count === undefined || request.step > 0) return [{ text: 'Done.' }]
  const everyMs = Number(every)
  const generation: Generation = { n: request.n, arrivedAt: now(), sentAt: [] }
  generations.push(generation)
  const tokens =
    what === 'prose'
      ? proseOf(request.n, Number(count)).map((token) => JSON.stringify(token).slice(1, -1))
      : Array.from({ length: Number(count) }, (_, index) => `${request.n}.${index} `)
  const due = (index: number) => generation.arrivedAt + index * everyMs
  return [
    {
      toolCall: 'send_message',
      chunks: ['{"text":"', ...tokens, '"}'],
      async gate(index) {
        const wait = everyMs === 0 ? 0 : due(index) - now()
        if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait))
        generation.sentAt[index - 1] = now()
      },
    },
  ]
})

process.on('message', () => {
  process.send?.({ generations: generations.splice(0) })
})
process.send?.({ baseUrl: server.baseUrl })

// Corrects known deviations of compatible servers from OpenAI's streaming format of Chat Completions, so that the SDK
// accepts the stream (https://platform.openai.com/docs/api-reference/chat-streaming).

import { type ChunkMapping, mappedStream } from '../lib/mapped-stream.ts'

/** Returns the response with a corrected body if it is a stream of events. */
export function withCorrectedEvents(response: Response): Response {
  const isStream = response.headers.get('content-type')?.includes('text/event-stream') === true
  if (!isStream || response.body === null) return response
  return new Response(mappedStream(response.body, createCorrection()), response)
}

/** Creates a correction that processes whole lines. If no line needs a correction, all bytes stay unchanged. */
function createCorrection(): ChunkMapping<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  const correct = createLineCorrection()
  let rest = ''
  return {
    push(chunk) {
      const text = rest + decoder.decode(chunk, { stream: true })
      const end = text.lastIndexOf('\n') + 1
      rest = text.slice(end)
      return end === 0 ? [] : [encoder.encode(correct(text.slice(0, end)))]
    },
    end() {
      const text = rest + decoder.decode()
      return text === '' ? [] : [encoder.encode(correct(text))]
    },
  }
}

/** Matches values that the SDK rejects: `arguments` that are not a string, and `error: null` in an ordinary chunk. */
const MAY_NEED_CORRECTION = /"arguments"\s*:\s*[{[\d]|"error"\s*:\s*null/
const HAS_OUTPUT = /"(?:content|reasoning|reasoning_content|arguments|name)"\s*:\s*(?:"[^"]|[[{])/
const HAS_FINISHED = /"finish_reason"\s*:\s*"|"error(?:_type|_message)?"\s*:\s*["{]/
const IS_DONE = /^data:\s*\[DONE\]\s*$/

function createLineCorrection(): (lines: string) => string {
  let hasOutput = false
  let hasCalls = false
  let hasFinished = false

  function corrected(line: string): string {
    // Some servers report the end of the stream without a finish reason.
    if (IS_DONE.test(line) && hasOutput && !hasFinished) return `${finishChunk(hasCalls)}${line}`
    return MAY_NEED_CORRECTION.test(line) ? `${line.slice(0, line.indexOf('{'))}${withStringArguments(line)}` : line
  }

  return (lines) => {
    hasOutput ||= HAS_OUTPUT.test(lines)
    hasCalls ||= lines.includes('"tool_calls"')
    hasFinished ||= HAS_FINISHED.test(lines)
    // Almost no chunk needs a correction.
    if (!lines.includes('[DONE]') && !MAY_NEED_CORRECTION.test(lines)) return lines
    return lines
      .split(/(?<=\n)/)
      .map(corrected)
      .join('')
  }
}

function finishChunk(hasCalls: boolean): string {
  const choice = { index: 0, delta: {}, finish_reason: hasCalls ? 'tool_calls' : 'stop' }
  return `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [choice] })}\n\n`
}

/** Returns the JSON of a line with corrected values, and the rest of the line. A line without JSON stays unchanged. */
function withStringArguments(line: string): string {
  const [json = '', end = ''] = [line.slice(line.indexOf('{')).trimEnd(), /\s*$/.exec(line)?.[0]]
  try {
    return `${JSON.stringify(correctedChunk(JSON.parse(json)))}${end}`
  } catch {
    return `${json}${end}`
  }
}

interface Chunk {
  error?: unknown
  choices?: { delta?: { tool_calls?: { function?: { arguments?: unknown } }[] | null } | null }[] | null
}

function correctedChunk(chunk: Chunk): Chunk {
  const { error, ...rest } = chunk
  for (const choice of chunk.choices ?? [])
    for (const { function: called } of choice.delta?.tool_calls ?? [])
      if (called?.arguments != null && typeof called.arguments !== 'string')
        called.arguments = JSON.stringify(called.arguments)
  return error == null ? rest : { ...rest, error }
}

// Corrects a stream of Chat Completions (https://platform.openai.com/docs/api-reference/chat-streaming) where compatible
// servers are known to deviate from OpenAI's format, so that the SDK accepts it.

/** Returns the response with a corrected body if it is a stream of events. */
export function withCorrectedEvents(response: Response): Response {
  const isStream = response.headers.get('content-type')?.includes('text/event-stream') === true
  if (!isStream || response.body === null) return response
  return new Response(response.body.pipeThrough(createCorrection()), response)
}

/** Works on whole lines, and leaves all bytes unchanged if no line needs a correction. */
function createCorrection(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  const correct = createLineCorrection()
  let rest = ''
  return new TransformStream({
    transform(chunk, controller) {
      const text = rest + decoder.decode(chunk, { stream: true })
      const end = text.lastIndexOf('\n') + 1
      rest = text.slice(end)
      if (end > 0) controller.enqueue(encoder.encode(correct(text.slice(0, end))))
    },
    flush(controller) {
      const text = rest + decoder.decode()
      if (text !== '') controller.enqueue(encoder.encode(correct(text)))
    },
  })
}

/** Values that the SDK refuses: `arguments` that are not a string, and `error: null` in an ordinary chunk. */
const MAY_NEED_CORRECTION = /"arguments"\s*:\s*[{[\d]|"error"\s*:\s*null/
const HAS_OUTPUT = /"(?:content|reasoning|reasoning_content|arguments|name)"\s*:\s*(?:"[^"]|[[{])/
const HAS_FINISHED = /"finish_reason"\s*:\s*"|"error(?:_type|_message)?"\s*:\s*["{]/
const IS_DONE = /^data:\s*\[DONE\]\s*$/

function createLineCorrection(): (lines: string) => string {
  let hasOutput = false
  let hasCalls = false
  let hasFinished = false

  function corrected(line: string): string {
    hasOutput ||= HAS_OUTPUT.test(line)
    hasCalls ||= line.includes('"tool_calls"')
    hasFinished ||= HAS_FINISHED.test(line)
    // A server that reports the end of the stream has finished, even if it gives no finish reason.
    if (IS_DONE.test(line) && hasOutput && !hasFinished) return `${finishChunk(hasCalls)}${line}`
    return MAY_NEED_CORRECTION.test(line) ? `${line.slice(0, line.indexOf('{'))}${withStringArguments(line)}` : line
  }

  return (lines) =>
    lines
      .split(/(?<=\n)/)
      .map(corrected)
      .join('')
}

function finishChunk(hasCalls: boolean): string {
  const choice = { index: 0, delta: {}, finish_reason: hasCalls ? 'tool_calls' : 'stop' }
  return `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [choice] })}\n\n`
}

/** Returns the line's JSON, corrected, and what follows it. A line that is not JSON stays as it is. */
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

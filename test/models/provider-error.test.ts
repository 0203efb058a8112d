import { APICallError, JSONParseError, TypeValidationError } from 'ai'
import { describe, expect, test } from 'vitest'
import { ModelNotSetUpError } from '../../src/lib/model-fault.ts'
import { readProviderError } from '../../src/models/provider-error.ts'

const response = (statusCode: number, responseBody: string) =>
  new APICallError({ message: 'Bad Gateway', url: 'http://x', requestBodyValues: {}, statusCode, responseBody })

const malformed = (value: unknown) => new TypeValidationError({ value, cause: new Error('zod') })

const FORMS: [name: string, error: unknown, expected: object][] = [
  [
    "OpenAI's",
    response(429, '{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}'),
    { words: 'Slow down', fault: 'RATE', isRetryable: true },
  ],
  [
    "Anthropic's",
    { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    { words: 'Overloaded', fault: 'UNAVAILABLE', isRetryable: true },
  ],
  [
    "Google's, in a list",
    response(400, '[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]'),
    { words: 'API key not valid.', fault: 'KEY' },
  ],
  [
    "Ollama's",
    response(404, '{"error":"model \\"x\\" not found"}'),
    { words: 'model "x" not found', fault: 'MODEL', isRetryable: false },
  ],
  [
    "FastAPI's",
    response(422, '{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}'),
    { words: 'field required', fault: 'REFUSED' },
  ],
  [
    "OpenRouter's, with the words of its provider",
    { message: 'Provider returned error', code: 429, metadata: { raw: '{"error":{"message":"Too busy"}}' } },
    { words: 'Provider returned error: Too busy', fault: 'RATE' },
  ],
  [
    'a string in a chunk',
    malformed({ error: 'EXPLODED' }),
    { words: 'EXPLODED', fault: 'BROKEN_OFF', isRetryable: true },
  ],
  [
    'error_type and error_message',
    malformed({ error_type: 'BadRequest', error_message: 'context too long' }),
    { words: 'context too long', fault: 'TOO_LONG', isRetryable: false },
  ],
  [
    'a page',
    response(502, '<html><head><title>502 Bad Gateway</title></head></html>'),
    { words: 'The provider sent a web page: 502 Bad Gateway', fault: 'UNAVAILABLE' },
  ],
  [
    'a page without a title',
    response(500, '<!DOCTYPE html>\n<html><script>x</script><body>It <b>broke</b></body></html>'),
    { words: 'The provider sent a web page: It broke' },
  ],
  ['plain text', response(503, 'no healthy\nupstream'), { words: 'no healthy upstream', fault: 'UNAVAILABLE' }],
  ['an empty body', response(500, ''), { words: 'Bad Gateway' }],
  [
    'a page in a stream',
    new JSONParseError({ text: '<html><title>Oops</title>', cause: null }),
    { words: 'The provider sent text that is not JSON: Oops' },
  ],
  [
    'a chunk of another API',
    malformed({ answer: 42 }),
    { words: 'The provider sent something that its API does not define: {"answer":42}' },
  ],
  [
    'no credit',
    response(400, '{"error":{"message":"Your credit balance is too low"}}'),
    { fault: 'QUOTA', isRetryable: false },
  ],
  ['a filter', response(400, '{"error":{"message":"No","code":"content_filter"}}'), { fault: 'FILTERED' }],
  ['an error without words', {}, { words: '{}' }],
  ['null', null, { words: 'null' }],
  [
    'a model without a provider',
    new ModelNotSetUpError('The model "mine:x" is unknown.'),
    { words: 'The model "mine:x" is unknown.', fault: 'NOT_SET_UP', isRetryable: false },
  ],
]

describe('an error from a provider', () => {
  test.each(FORMS)('%s', (_, error, expected) => {
    expect(readProviderError(error)).toMatchObject(expected)
  })

  test.each(['<script ', '<h1>', '<h1 ', '<', '</title>\n'])('a long page of "%s" takes little time', (repeated) => {
    const page = `<html>${repeated.repeat(200_000 / repeated.length)}`
    const started = process.cpuUsage()
    expect(readProviderError(response(502, page)).fault).toBe('UNAVAILABLE')
    expect(process.cpuUsage(started).user).toBeLessThan(500_000)
  })

  test('a page whose script was cut off shows its title', () => {
    const page = `<html><head><title>Bad gateway</title></head><body><script>${'x'.repeat(70_000)}</script>`
    expect(readProviderError(response(502, page)).words).toBe('The provider sent a web page: Bad gateway')
  })
})

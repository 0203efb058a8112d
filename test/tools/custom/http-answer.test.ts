import { describe, expect, test } from 'vitest'
import { readHttpAnswer, readHttpError } from '../../../src/tools/custom/http-answer.ts'

const PNG = Buffer.from('\x89PNG\r\n\x1a\n0000', 'latin1')
const bytes = (text: string, encoding: BufferEncoding = 'utf8') => Buffer.from(text, encoding)

describe('the response of an HTTP tool', () => {
  test.each<[string, string, Uint8Array, unknown]>([
    ['JSON is its value', 'application/json; charset=utf-8', bytes('{"a":"ü"}'), { a: 'ü' }],
    [
      'JSON in another charset',
      'application/problem+json; charset=iso-8859-1',
      bytes('{"a":"ü"}', 'latin1'),
      { a: 'ü' },
    ],
    ['text', 'text/plain', bytes('Grüße'), 'Grüße'],
    ['text in its declared charset', 'text/html; charset="ISO-8859-1"', bytes('Grüße', 'latin1'), 'Grüße'],
    ['text in a Japanese charset', 'text/plain;charset=Shift_JIS', Buffer.from([0x93, 0xfa, 0x96, 0x7b]), '日本'],
    ['text with a byte order mark', 'text/plain; charset=latin1', bytes('\ufeffHi', 'utf16le'), 'Hi'],
    ['text that is not UTF-8, without a charset', 'text/csv', bytes('Grüße', 'latin1'), 'Grüße'],
    ['text with an unknown charset', 'text/plain; charset=klingon', bytes('Hi'), 'Hi'],
    ['text of another type with a charset', 'application/x-thing; charset=utf-8', bytes('Hi'), 'Hi'],
    ['text without a type', '', bytes('Hi'), 'Hi'],
    ['nothing', '', bytes(''), ''],
    ['nothing of some type', 'image/png', bytes(''), ''],
    ['bytes without a type', '', Buffer.from([0, 1, 2]), 'A file of type application/octet-stream, 3 bytes.'],
    ['an archive', 'application/zip', Buffer.alloc(2048), 'A file of type application/zip, 2048 bytes (2.0 KB).'],
    ['an image that is none', 'image/png', bytes('<html>'), 'A file of type image/png, 6 bytes.'],
  ])('%s', (_, contentType, body, output) => {
    expect(readHttpAnswer(contentType, body)).toMatchObject({ output })
  })

  test('an image in a response becomes a file, described in words', () => {
    expect(readHttpAnswer('image/png', PNG)).toEqual({
      output: 'A file of type image/png, 12 bytes.',
      files: [{ mediaType: 'image/png', bytes: 12, data: PNG.toString('base64') }],
      returned: [{ name: 'result.png', content: PNG }],
    })
  })

  test.each(['{"a":', '['.repeat(300) + ']'.repeat(300)])(
    'a body that is not the JSON that it claims to be is a failure',
    (body) => {
      expect(() => readHttpAnswer('application/json', bytes(body))).toThrow(/returned JSON/)
    },
  )

  test('an error response keeps its text, JSON and files', () => {
    const json = bytes('{"why":\n "No  money"}')
    expect(readHttpError('application/json', json)).toEqual({
      words: '{"why": "No money"}',
      output: { why: 'No  money' },
    })
    expect(readHttpError('application/json', bytes('{no'))).toEqual({ words: '{no' })
    expect(readHttpError('text/plain; charset=latin1', bytes('Für\nSie', 'latin1'))).toMatchObject({ words: 'Für Sie' })
    expect(readHttpError('image/png', PNG)).toMatchObject({
      words: expect.stringContaining('image/png'),
      files: [{ bytes: 12 }],
    })
  })
})

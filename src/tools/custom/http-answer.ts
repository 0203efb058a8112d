import { contentTypeOf, decodedText, utf8Text } from '../../lib/decoded-text.ts'
import { messageOf } from '../../lib/errors.ts'
import { DEEPEST_JSON, isTooDeep, type Json } from '../../lib/json.ts'
import { fileInWords, nameOfReturned, toolFile } from '../../lib/tool-file.ts'
import { ToolFailure, type ToolOutput } from '../tool.ts'

const isJson = (mediaType: string | null) => mediaType !== null && /[/+]json$/.test(mediaType)

const isText = (mediaType: string) =>
  /^text\/|[/+](xml|yaml|javascript|x-www-form-urlencoded|x-ndjson|jsonl|csv|graphql)$/.test(mediaType)

/**
 * Reads the response of a tool's server. JSON is parsed, text is decoded by its charset, and any other body becomes
 * a file, which the output describes.
 * @throws ToolFailure if a body is declared as JSON but is not valid JSON
 */
export function readHttpAnswer(contentType: string, body: Uint8Array): ToolOutput {
  const { mediaType, charset } = contentTypeOf(contentType)
  if (isJson(mediaType)) return { output: jsonOf(decodedText(body, charset)) }
  if (body.byteLength === 0 || (mediaType !== null && (isText(mediaType) || charset !== null)))
    return { output: decodedText(body, charset) }
  const isUnnamed = mediaType === null || mediaType === 'application/octet-stream'
  const text = isUnnamed ? utf8Text(body) : null
  if (text !== null) return { output: text }
  const type = mediaType ?? 'application/octet-stream'
  const file = toolFile(type, body)
  const output = fileInWords({ mediaType: type, bytes: body.byteLength })
  const returned = [{ name: nameOfReturned(type, undefined), content: body }]
  return { output, ...(file === null ? {} : { files: [file] }), returned }
}

/** Reads the body of an error response. Returns its message as one line, and its JSON or file. */
export function readHttpError(contentType: string, body: Uint8Array): { words: string } & Partial<ToolOutput> {
  const { mediaType, charset } = contentTypeOf(contentType)
  if (isJson(mediaType)) {
    const text = decodedText(body, charset)
    const details = parsedJson(text)
    return details === undefined ? { words: lineOf(text) } : { words: lineOf(text), output: details }
  }
  const { output, files = [] } = readHttpAnswer(contentType, body)
  return { words: lineOf(String(output)), files }
}

const LONGEST_WORDS = 500

const lineOf = (text: string) => text.replace(/\s+/g, ' ').trim().slice(0, LONGEST_WORDS).toWellFormed()

function parsedJson(text: string): Json | undefined {
  try {
    const value = JSON.parse(text) as Json
    return isTooDeep(value) ? undefined : value
  } catch {
    return undefined
  }
}

function jsonOf(text: string): Json {
  try {
    const answer = JSON.parse(text) as Json
    if (!isTooDeep(answer)) return answer
  } catch (error) {
    throw new ToolFailure('BAD_ANSWER', `The tool's server returned JSON that is not valid: ${messageOf(error)}`)
  }
  throw new ToolFailure(
    'BAD_ANSWER',
    `The tool's server returned JSON that is nested more than ${DEEPEST_JSON} levels deep.`,
  )
}

import type { CallToolResult } from '@ai-sdk/mcp'
import { cut, DEEPEST_JSON, isTooDeep, type Json, jsonBytes, toJson } from '../../lib/json.ts'
import {
  fileInWords,
  LARGEST_FILES_BYTES,
  nameOfReturned,
  type ReturnedFile,
  type ToolFile,
  toolFile,
} from '../../lib/tool-file.ts'
import { LARGEST_JSON_BYTES } from '../../lib/validate.ts'
import type { FailureDetails } from '../tool.ts'

/** The result of a call. `message` is a sentence for the model. */
export type McpOutcome =
  | { type: 'result'; output: Json; files?: ToolFile[]; returned?: ReturnedFile[] }
  | ({ type: 'failure'; code: string; message: string } & FailureDetails)

const LONGEST_FAILURE = 2_000

/**
 * Converts a server's result to a tool's result. The output is the structured content or, if there is none, the
 * texts. Files that models accept are added; other images, sounds and links are described. All binary content is
 * returned for storage. A failure is converted in the same way.
 */
export function readResult(result: CallToolResult): McpOutcome {
  const content = 'content' in result && Array.isArray(result.content) ? (result.content as ContentPart[]) : []
  const { structuredContent, toolResult } = result as { structuredContent?: unknown; toolResult?: unknown }
  const parts = readParts(content)
  const text = parts.map(({ words }) => words).join('\n')
  const structured = structuredContent ?? toolResult
  if (isTooDeep(structured)) return { type: 'failure', code: 'TOO_LARGE', message: TOO_DEEP }
  const output = toJson(structured ?? text)
  if (jsonBytes(output) > LARGEST_JSON_BYTES) return { type: 'failure', code: 'TOO_LARGE', message: TOO_LONG }
  const files = parts.flatMap(({ file }) => file ?? [])
  if ('isError' in result && result.isError === true) {
    const details = structured === undefined ? {} : { details: output }
    return { type: 'failure', code: 'TOOL_FAILED', message: wordsOf(text, structured), ...details, files }
  }
  const returned = parts.flatMap((part) => part.returned ?? [])
  return {
    type: 'result',
    output,
    ...(files.length === 0 ? {} : { files }),
    ...(returned.length === 0 ? {} : { returned }),
  }
}

const TOO_DEEP = `The tool's result is nested more than ${DEEPEST_JSON} levels deep.`
const TOO_LONG = `The tool's result is larger than ${LARGEST_JSON_BYTES} bytes. Ask for less.`

function wordsOf(text: string, structured: unknown): string {
  const words = text.trim() === '' && structured !== undefined ? JSON.stringify(structured) : text
  return words.trim() === '' ? 'The tool failed without a reason.' : cut(words, LONGEST_FAILURE)
}

interface ContentPart {
  type: string
  text?: string
  data?: string
  mimeType?: string
  uri?: string
  resource?: { text?: string; blob?: string; uri?: string; mimeType?: string }
}

interface ReadPart {
  words: string
  file: ToolFile | null
  returned: ReturnedFile | null
}

function readParts(content: readonly ContentPart[]): ReadPart[] {
  let left = LARGEST_FILES_BYTES
  return content.map((part) => {
    const { file, ...read } = readPart(part)
    if (file === null || file.bytes > left) return { ...read, file: null }
    left -= file.bytes
    return { ...read, file }
  })
}

/** The media type of a resource if the server gives none. */
const UNTYPED = 'application/octet-stream'

function readPart({ type, text, data, mimeType, uri, resource }: ContentPart): ReadPart {
  const source = uri ?? resource?.uri
  const whole = text ?? resource?.text
  if (whole !== undefined) return { words: whole, file: null, returned: null }
  const mediaType = mimeType ?? resource?.mimeType ?? (resource?.blob === undefined ? undefined : UNTYPED)
  const base64 = data ?? resource?.blob
  if (base64 === undefined || mediaType === undefined) {
    const named = [type, mediaType, source].filter((part) => part !== undefined)
    return { words: `[${named.join(' ')}]`, file: null, returned: null }
  }
  const bytes = Buffer.from(base64, 'base64')
  const words = [type, fileInWords({ mediaType, bytes: bytes.byteLength }), source].filter((part) => part !== undefined)
  const returned = bytes.byteLength === 0 ? null : { name: nameOfReturned(mediaType, source), content: bytes }
  return { words: `[${words.join(' ')}]`, file: toolFile(mediaType, bytes), returned }
}

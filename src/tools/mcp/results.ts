import type { CallToolResult } from '@ai-sdk/mcp'
import { cut, DEEPEST_JSON, isTooDeep, type Json, jsonBytes, toJson } from '../../lib/json.ts'
import { LARGEST_JSON_BYTES } from '../../lib/validate.ts'

/** The result of a call. `message` is a sentence for the model. */
export type McpOutcome = { type: 'result'; output: Json } | { type: 'failure'; code: string; message: string }

/**
 * Converts a server's result to a tool's result: the structured content if there is any, else the texts.
 * Images and sounds are replaced by their names.
 */
export function readResult(result: CallToolResult): McpOutcome {
  const content = 'content' in result && Array.isArray(result.content) ? (result.content as ContentPart[]) : []
  const text = content.map(textOf).join('\n')
  if ('isError' in result && result.isError === true) {
    return {
      type: 'failure',
      code: 'TOOL_FAILED',
      message: text === '' ? 'The tool failed without a reason.' : cut(text, 2_000),
    }
  }
  const { structuredContent, toolResult } = result as { structuredContent?: unknown; toolResult?: unknown }
  const given = structuredContent ?? toolResult ?? text
  if (isTooDeep(given)) return { type: 'failure', code: 'TOO_LARGE', message: TOO_DEEP }
  const output = toJson(given)
  if (jsonBytes(output) <= LARGEST_JSON_BYTES) return { type: 'result', output }
  return {
    type: 'failure',
    code: 'TOO_LARGE',
    message: `The tool's result is larger than ${LARGEST_JSON_BYTES} bytes. Ask for less.`,
  }
}

const TOO_DEEP = `The tool's result is nested deeper than ${DEEPEST_JSON}.`

interface ContentPart {
  type: string
  text?: string
  mimeType?: string
  uri?: string
  resource?: { text?: string; uri?: string }
}

function textOf({ type, text, mimeType, uri, resource }: ContentPart): string {
  const source = uri ?? resource?.uri
  return text ?? resource?.text ?? `[${[type, mimeType, source].filter((part) => part !== undefined).join(' ')}]`
}

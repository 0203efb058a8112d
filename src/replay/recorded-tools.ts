import type { Json } from '../lib/json.ts'
import type { GuardedHttp, GuardedOutcome } from '../tools/custom/guarded-http.ts'
import { compareListing, type McpListing, type McpTools } from '../tools/mcp/mcp-tools.ts'

/** The recorded answer to a call. */
export type RecordedAnswer =
  | { type: 'output'; output: Json }
  | { type: 'failure'; code: string; message: string; details?: Json }

/** Returns the result of a call that would otherwise leave the server. */
export type AnswerCall = (callId: string) => Promise<RecordedAnswer>

const NOT_A_TOOL: GuardedOutcome = {
  type: 'failure',
  code: 'UNREACHABLE',
  message: 'A replay sends no requests to other systems.',
}

/** The HTTP client for the tools of a replay. The `Idempotency-Key` of a request identifies the call. */
export function createRecordedHttp(answer: AnswerCall): GuardedHttp {
  return {
    async send({ headers = {} }) {
      const callId = headers['idempotency-key']
      if (callId === undefined) return NOT_A_TOOL
      const found = await answer(callId)
      const jsonOf = (value: Json) => Buffer.from(JSON.stringify(value))
      if (found.type === 'output')
        return { type: 'answer', status: 200, contentType: 'application/json', body: jsonOf(found.output) }
      const { code, message, details } = found
      return {
        type: 'failure',
        code: code as Extract<GuardedOutcome, { type: 'failure' }>['code'],
        message,
        ...(details === undefined
          ? {}
          : { response: { status: 400, contentType: 'application/json', body: jsonOf(details) } }),
      }
    },
    async fetch() {
      throw new TypeError('A replay sends no requests to other systems.')
    },
    async close() {},
  }
}

/** The tools in a server's latest list. */
export interface StoredListing {
  name: string
  url: string
  listing: { name: string; description: string | null; inputSchema: object; fingerprint: string }[]
}

/** The MCP client for a replay. It lists the tools that were listed in the recording. */
export function createRecordedMcp(answer: AnswerCall, stored: () => readonly StoredListing[]): McpTools {
  return {
    async list(servers) {
      const listings = await Promise.all(
        servers.map(async ({ name, url, allowedTools }): Promise<McpListing> => {
          const found = stored().find((one) => one.name === name && one.url === url)
          const list = (found?.listing ?? []).map(({ name: tool, description, inputSchema }) => ({
            name: tool,
            ...(description === null ? {} : { description }),
            inputSchema,
          }))
          return compareListing(
            { name, url, allowedTools, fingerprints: null },
            list as unknown as Parameters<typeof compareListing>[1],
          )
        }),
      )
      return {
        tools: listings.flatMap(({ tools }) => tools),
        unconfirmed: [],
        failed: listings.flatMap(({ failed }) => failed),
        listed: Object.assign({}, ...listings.map(({ listed }) => listed)),
      }
    },
    async call(_server, _toolName, _input, { callId }) {
      const found = await answer(callId)
      if (found.type === 'output') return { type: 'result', output: found.output }
      const { code, message, details } = found
      return { type: 'failure', code, message, ...(details === undefined ? {} : { details }) }
    },
    async close() {},
  }
}

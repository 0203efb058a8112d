import { CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server'
import { isObject } from '../../lib/json.ts'
import type { Caller } from '../exchange.ts'

/** The MCP extension for long-running calls: https://github.com/modelcontextprotocol/ext-tasks */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/** One request, with its caller and the capabilities of the client. */
export interface McpExchange {
  caller: Caller
  /** Aborts when the client disconnects, or when the server drains. */
  waiting: AbortSignal
  /** Whether the client supports the Tasks extension. */
  takesTasks: boolean
  /** Whether the client can show forms to its user. */
  takesForms: boolean
}

/** The fields of a request that the endpoint reads before the MCP package handles it. */
export interface ClientMessage {
  id?: unknown
  method?: unknown
  params?: { _meta?: Record<string, unknown>; [name: string]: unknown }
}

/**
 * Reads the capabilities that clients of version 2026-07-28 send with each request. Requests of earlier versions
 * contain none.
 */
export function capabilitiesOf({ params }: ClientMessage): Pick<McpExchange, 'takesTasks' | 'takesForms'> {
  const meta = isObject(params) && isObject(params['_meta']) ? params['_meta'] : {}
  const declared = meta[CLIENT_CAPABILITIES_META_KEY]
  const { extensions, elicitation } = isObject(declared) ? declared : {}
  return {
    takesTasks: isObject(extensions) && isObject(extensions[TASKS_EXTENSION]),
    // An empty object means that the client supports forms.
    takesForms: isObject(elicitation) && (Object.keys(elicitation).length === 0 || 'form' in elicitation),
  }
}

/** The result of a request, as the MCP package sends it. */
export type Result = Record<string, unknown>

import { createMcpDoor, isListen, waitsOf } from '../../doors/mcp/door.ts'
import type { Operations } from '../../doors/tasks/operations.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type DoorHttp, preflight, send, streamOf } from './door-http.ts'
import { type Handler, sendJson } from './health.ts'

export const MCP_PATH = '/mcp'
/** Metadata of OAuth (RFC 9728): at the root, and for the path of the door. */
export const PROTECTED_RESOURCE_PATH = /^\/\.well-known\/oauth-protected-resource(\/mcp)?$/

export interface McpHandlerParts {
  operations: Operations
  http: DoorHttp
  publicUrl: Pick<PublicUrl, 'to'>
  /** The issuers of tokens, for OAuth clients; empty without any. */
  issuers: readonly string[]
  maxResponseBytes: number
}

/** `POST /mcp`: see `src/doors/mcp`. `metadata`: where OAuth clients get a token for it. */
export function createMcpHandler({ operations, http, publicUrl, issuers, maxResponseBytes }: McpHandlerParts): {
  handle: Handler
  metadata: Handler
} {
  const door = createMcpDoor({ operations, maxResponseBytes, onError: http.onError })
  return {
    handle: http.handlerOf({
      staysOpen: (body) => (isListen(body) ? 'stream' : waitsOf(body) > 0 ? 'wait' : 'no'),
      waitsOf: (body) => (isListen(body) ? 1 : waitsOf(body)),
      async serve(request, response) {
        if (!isListen(request.body)) return send(response, await door.answer(request))
        const refusal = await door.listen(request, streamOf(response))
        if (refusal !== null) await send(response, refusal)
      },
    }),
    metadata(request, response) {
      response.setHeader('access-control-allow-origin', '*')
      if (request.method === 'OPTIONS') return preflight(response)
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET, HEAD' })
      sendJson(response, 200, {
        resource: publicUrl.to(MCP_PATH, askedOriginOf(request.headers)),
        ...(issuers.length > 0 ? { authorization_servers: issuers } : {}),
        bearer_methods_supported: ['header'],
        resource_name: 'Parley',
      })
    },
  }
}

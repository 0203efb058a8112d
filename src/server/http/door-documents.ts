import { A2A_PATH, cardOf, SERVER } from '../../doors/a2a/card.ts'
import { MCP_PATH, METADATA_PATH } from '../../doors/mcp/door.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type Handler, sendJson } from './health.ts'

/**
 * Serves the documents from which clients learn about the protocol endpoints and how to sign in. The documents
 * contain no names of people or spaces, so anybody may read them.
 * @param issuers the issuers of tokens, for OAuth clients; may be empty
 */
export function createDoorDocuments({
  publicUrl,
  issuers,
}: {
  publicUrl: Pick<PublicUrl, 'to'>
  issuers: readonly string[]
}): Record<string, Handler> {
  const documentOf =
    (read: (urlOf: (path: string) => string) => object): Handler =>
    (request, response) => {
      response.setHeader('access-control-allow-origin', '*')
      const { method, headers } = request
      if (method === 'OPTIONS')
        return void response
          .writeHead(204, { 'access-control-allow-methods': 'GET', 'access-control-max-age': '3600' })
          .end()
      if (method !== 'GET' && method !== 'HEAD')
        return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET, HEAD' })
      const askedOrigin = askedOriginOf(headers)
      sendJson(
        response,
        200,
        read((path) => publicUrl.to(path, askedOrigin)),
      )
    }

  const metadata = documentOf((urlOf) => ({
    resource: urlOf(MCP_PATH),
    ...(issuers.length > 0 ? { authorization_servers: issuers } : {}),
    bearer_methods_supported: ['header'],
    resource_name: 'Parley',
  }))
  return {
    '/.well-known/agent-card.json': documentOf((urlOf) => cardOf(SERVER, urlOf(A2A_PATH))),
    // The OAuth metadata (RFC 9728) is served for the root, and for the path of the endpoint.
    '/.well-known/oauth-protected-resource': metadata,
    [METADATA_PATH]: metadata,
  }
}

import type { Domain } from '../../graphql/domain.ts'
import type { Handler } from './health.ts'

/** The path to which an MCP server's authorization redirects the browser of an admin. */
export const MCP_CALLBACK_PATH = '/auth/mcp/callback'

const TEXT = {
  'content-type': 'text/plain; charset=utf-8',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

/** `GET /auth/mcp/callback`: completes an authorization, and returns in plain text whether it worked. */
export function createMcpCallback({ toolSetup }: Pick<Domain, 'toolSetup'>): Handler {
  return async (request, response) => {
    // A link preview must not use up the code.
    if (request.method === 'HEAD') return void response.writeHead(200, TEXT).end()
    const { searchParams } = new URL(request.url ?? '/', 'http://localhost')
    const { isAuthorized, message } = await toolSetup.finishAuthorization(searchParams)
    response.writeHead(isAuthorized ? 200 : 400, TEXT).end(`${message}\n`)
  }
}

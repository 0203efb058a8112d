import type { IncomingMessage, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { GRAPHQL_PATH } from './graphql.ts'
import type { Handler } from './health.ts'

const HTML = {
  'content-type': 'text/html; charset=utf-8',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
}

const FIRST_QUERY = `# Welcome to Parley. Type your token into the Headers pane below:
#   { "Authorization": "Bearer <token>" }
# then run this:
{
  viewer { scope unreadCount }
  spaces(first: 10) { edges { node { id name members { name kind } } } }
}
`

/**
 * GraphiQL, which needs nothing from elsewhere. Its subscriptions come as server-sent events, by POST: so the
 * Authorization that is typed into its headers pane goes with them, which a browser's WebSocket could not carry.
 */
export function createGraphiql(): Handler {
  let page: Promise<{ plain: string; zipped: Buffer }> | null = null

  async function render() {
    const { renderGraphiQL } = await import('@graphql-yoga/render-graphiql')
    const plain = renderGraphiQL({
      title: 'Parley',
      endpoint: GRAPHQL_PATH,
      method: 'POST',
      defaultQuery: FIRST_QUERY,
      credentials: 'omit',
    })
    return { plain, zipped: await promisify(gzip)(plain) }
  }

  return async (request, response) => {
    page ??= render()
    const { plain, zipped } = await page
    const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
    response.writeHead(200, {
      ...HTML,
      vary: 'accept, accept-encoding',
      ...(takesGzip ? { 'content-encoding': 'gzip' } : {}),
    })
    response.end(takesGzip ? zipped : plain)
  }
}

/** A browser that wants to see something, not a client that wants data. */
export function wantsPage({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && String(headers.accept ?? '').includes('text/html')
}

export function sendNotFound(response: ServerResponse): void {
  response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' })
  response.end('There is nothing here.\n')
}

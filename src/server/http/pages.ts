import { createHash } from 'node:crypto'
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
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-cache',
}

/**
 * Returns the console's content security policy with the additions that GraphiQL's editor needs: hashes of its
 * inline scripts, workers from blobs, and inline styles.
 */
function policyOf(page: string): string {
  const scripts = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  )
  return (
    `default-src 'none'; script-src ${scripts.join(' ')}; worker-src blob:; style-src 'unsafe-inline'; img-src 'self' data:; ` +
    "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  )
}

/** Where the console keeps a token, before the path prefix; see `web/session.tsx`. */
const TOKEN_KEY = 'parley.token'

const FIRST_QUERY = `# Welcome to Parley. The bar above says whether
# you are signed in to the console: then run this
# query. Otherwise type a token into the Headers
# pane below:
#   { "Authorization": "Bearer <token>" }
# From then on every tab of this page sends the
# token, and the documentation is available. The
# token is not stored, not even in this browser.
{
  viewer { scope unreadCount }
  spaces(first: 10) {
    edges {
      node { id name members { name kind } }
    }
  }
}
`

/**
 * A script that runs before GraphiQL in its page. It adds the Authorization header that was last entered in a
 * Headers pane to requests of tabs without one; without any, requests use the session of the console: the token that it
 * keeps in this browser tab, or the session cookie. It delays the introspection query until there is a session or a
 * token. A token of the Headers pane stays in the page; the script deletes tokens that older versions stored.
 *
 * Anybody can send a person a link to this page with a mutation in it. If the page was opened with a query, the script
 * therefore asks before it runs an operation with the session.
 *
 * The script also deletes the stored tabs, because GraphiQL opens an empty tab besides those. It keeps the last query.
 */
function sessionScript(basePath: string): string {
  // PARLEY_PUBLIC_URL can contain an apostrophe.
  const inScript = (value: string) => JSON.stringify(value)
  return `<script>
  for (const key of ['graphiql:headers', 'graphiql:shouldPersistHeaders']) localStorage.removeItem(key)
  const ask = window.fetch.bind(window)
  const hasQuery = new URLSearchParams(location.search).has('query')
  if (!hasQuery) localStorage.removeItem('graphiql:tabState')
  const token = sessionStorage.getItem(${inScript(TOKEN_KEY + basePath)})
  const session = token === null ? { 'x-parley-csrf': '1' } : { authorization: 'Bearer ' + token }
  let authorization = null
  let isConfirmed = !hasQuery
  let known
  const isKnown = new Promise((resolve) => { known = resolve })
  const isIntrospection = ({ body }) => String(body).includes('IntrospectionQuery')
  window.fetch = async (resource, init = {}) => {
    const headers = new Headers(init.headers)
    const given = headers.get('authorization')
    if (given) {
      authorization = given
      known()
      document.querySelector('.parley-session').textContent = ' · Requests use the token of the Headers pane.'
    } else {
      if (isIntrospection(init)) await isKnown
      if (authorization) headers.set('authorization', authorization)
    }
    if (headers.has('authorization')) return ask(resource, { ...init, headers })
    if (!isConfirmed && !isIntrospection(init)) {
      isConfirmed = confirm('The link that you opened contained a query. Run operations with your session anyway?')
      if (!isConfirmed) throw new Error('Not sent.')
    }
    for (const [name, value] of Object.entries(session)) headers.set(name, value)
    return ask(resource, { ...init, headers, credentials: 'same-origin' })
  }
  const showSession = async () => {
    const headers = { ...session, 'content-type': 'application/json' }
    const { scope } = await (await ask(${inScript(`${basePath}/auth/session`)}, { headers })).json()
    if (!scope) return
    known()
    const body = JSON.stringify({ query: '{ viewer { human { name } } }' })
    const answer = await (await ask(${inScript(basePath + GRAPHQL_PATH)}, { method: 'POST', headers, body })).json()
    if (!answer.data) return
    const name = answer.data.viewer.human?.name ?? 'the operator'
    document.querySelector('.parley-session').textContent = ' · You are signed in as ' + name + '.'
  }
  addEventListener('DOMContentLoaded', () => showSession().catch(() => {}))
</script>`
}

/** The HTML of a bar above GraphiQL with a link to the console. */
const linkToConsole = (basePath: string) => `<style>
  body { display: flex; flex-direction: column; height: 100vh }
  #root { flex: 1; min-height: 0; height: auto }
  .parley-bar { padding: 6px 16px; font: 14px system-ui, sans-serif; background: #2b2f3a; color: #fff }
  .parley-bar a { color: #c7c8ff }
</style>
<nav class="parley-bar" aria-label="Parley">Parley’s API · <a href="${basePath}/">Console</a><span class="parley-session"> · Not signed in: enter a token in the Headers pane.</span></nav>`

/**
 * Serves GraphiQL, which then sends no requests to other hosts. Its subscriptions use server-sent events over POST,
 * because a browser's WebSocket cannot send the Authorization header of the Headers pane. `basePath`: the prefix
 * under which browsers reach the server.
 */
export function createGraphiql(basePath: string): Handler {
  let page: Promise<{ plain: string; zipped: Buffer; etag: string; policy: string }> | null = null

  async function render() {
    const { renderGraphiQL } = await import('@graphql-yoga/render-graphiql')
    const rendered = renderGraphiQL({
      title: 'Parley',
      endpoint: basePath + GRAPHQL_PATH,
      method: 'POST',
      defaultQuery: FIRST_QUERY,
      credentials: 'omit',
      // The headers contain a token, which browsers must not store.
      shouldPersistHeaders: false,
    })
    const plain = rendered
      .replace('<head>', () => `<head>${sessionScript(basePath)}`)
      .replace(/<body[^>]*>/, (body) => `${body}${linkToConsole(basePath)}`)
    const etag = `"${createHash('sha256').update(plain).digest('base64url')}"`
    return { plain, zipped: await promisify(gzip)(plain), etag, policy: policyOf(plain) }
  }

  return async (request, response) => {
    page ??= render()
    const { plain, zipped, etag, policy } = await page
    const vary = 'accept, accept-encoding'
    const headers = { ...HTML, 'content-security-policy': policy, vary, etag }
    if (request.headers['if-none-match']?.includes(etag)) {
      response.writeHead(304, headers).end()
      return
    }
    const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
    response.writeHead(200, { ...headers, ...(takesGzip ? { 'content-encoding': 'gzip' } : {}) })
    response.end(takesGzip ? zipped : plain)
  }
}

/** Whether the request comes from a browser that expects a page, not from a client that expects data. */
export function wantsPage({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && String(headers.accept ?? '').includes('text/html')
}

/** `hint`: an additional sentence that tells an operator what to change. */
export function sendNotFound(response: ServerResponse, hint: string | null = null): void {
  response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' })
  response.end(hint === null ? 'Not found.\n' : `Not found. ${hint}\n`)
}

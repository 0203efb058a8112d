import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Handler } from './health.ts'
import { sendNotFound } from './pages.ts'
import { pathOf } from './targets.ts'

/** The path prefix of the console's assets. */
const ASSETS_PATH = '/console/'
/**
 * The paths of the console's pages. The server returns the same document for all of them, and a script in the
 * document renders the page for the path.
 */
const PAGES =
  /^\/(?:|(?:spaces|runs|agents|why|people)(?:\/[\w-]+){0,2}|join\/[\w-]+|waiting|profile|models|start|usage|audit|notifications|search)\/?$/

/** Assets that must keep their path, because a service worker controls only the pages below its own path. */
const AT_ROOT = ['/manifest.webmanifest', '/service-worker.js']

const BUILT = path.resolve(import.meta.dirname, '../../../web/dist')
const CONTENT_TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.js': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.webmanifest': 'application/manifest+json',
}
/**
 * The content security policy allows no content from other origins, no inline scripts or styles, and no text parsed
 * as HTML.
 */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  vary: 'accept-encoding',
}
/**
 * Browsers revalidate the page each time, so that they load the new console as soon as the server has a new version.
 */
const ASKED_EACH_TIME = 'no-cache'
/** The cache policy of assets whose name contains a hash of their content. */
const KEPT = 'public, max-age=31536000, immutable'

interface Asset {
  type: string
  etag: string
  caching: string
  plain: Buffer
  zipped: Buffer
}

/** Whether a path is a page or an asset of the console. */
export const isConsolePath = (path: string) =>
  path.startsWith(ASSETS_PATH) || AT_ROOT.includes(path) || PAGES.test(path)

/**
 * Serves the console of web/ as `npm run generate` built it. Reads the files when the first request arrives.
 * `basePath`: the prefix under which browsers reach the server.
 */
export function createConsole(basePath: string): Handler {
  let loading: Promise<Map<string, Asset>> | null = null

  function assets(): Promise<Map<string, Asset>> {
    loading ??= load(basePath).catch((error) => {
      loading = null
      throw error
    })
    return loading
  }

  return async (request, response) => {
    const url = pathOf(request)
    const known = await assets()
    if (known.size === 0) {
      response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8' })
      response.end('The console is not built. Run `npm run generate`, then reload this page.\n')
      loading = null
      return
    }
    const asset = known.get(assetAt(url))
    if (asset === undefined) return sendNotFound(response)
    const { type, etag, caching, plain, zipped } = asset
    const headers = { ...HEADERS, 'cache-control': caching, etag }
    if (request.headers['if-none-match']?.includes(etag)) {
      response.writeHead(304, headers).end()
      return
    }
    const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
    const body = takesGzip ? zipped : plain
    response.writeHead(200, {
      ...headers,
      'content-type': type,
      'content-length': body.length,
      ...(takesGzip ? { 'content-encoding': 'gzip' } : {}),
    })
    response.end(body)
  }
}

function assetAt(url: string): string {
  if (url.startsWith(ASSETS_PATH)) return url.slice(ASSETS_PATH.length)
  return AT_ROOT.includes(url) ? url.slice(1) : 'index.html'
}

/** Returns the built files by path. Returns an empty map if the console was not built. */
async function load(basePath: string): Promise<Map<string, Asset>> {
  const names = await readdir(BUILT, { recursive: true }).catch(() => [])
  const files = names.filter((name) => path.extname(name) in CONTENT_TYPES)
  const read = files.map(async (file) => {
    const name = file.split(path.sep).join('/')
    const content = await readFile(path.join(BUILT, file))
    return [name, await assetOf(name, name === 'index.html' ? pageUnder(basePath, content) : content)] as const
  })
  return new Map(await Promise.all(read))
}

/**
 * Inserts the path prefix into the page. As built, the page has relative asset paths and expects the API at the
 * root.
 */
function pageUnder(basePath: string, page: Buffer): Buffer {
  const text = page
    .toString()
    .replaceAll(/ (src|href)="\.\//g, ` $1="${basePath}${ASSETS_PATH}`)
    .replace(`${basePath}${ASSETS_PATH}manifest.webmanifest`, `${basePath}/manifest.webmanifest`)
    .replaceAll(' href="/graphql"', ` href="${basePath}/graphql"`)
    .replace(' data-base=""', ` data-base="${basePath}"`)
  return Buffer.from(text)
}

async function assetOf(name: string, plain: Buffer): Promise<Asset> {
  const etag = `"${createHash('sha256').update(plain).digest('base64url')}"`
  const caching = name.startsWith('assets/') ? KEPT : ASKED_EACH_TIME
  return { type: CONTENT_TYPES[path.extname(name)] ?? '', etag, caching, plain, zipped: await promisify(gzip)(plain) }
}

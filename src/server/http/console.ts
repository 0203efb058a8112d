import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { gzip } from 'node:zlib'
import type { Handler } from './health.ts'
import { sendNotFound } from './pages.ts'

/** Under which everything of the console lies but its page. */
export const CONSOLE_PATH = '/console/'

const WEB = path.resolve(import.meta.dirname, '../../../web')
const CONTENT_TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}
/** Nothing from elsewhere, no script or style within the page, and no text that is made into markup. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  // Kept by browsers, and asked about each time: a new version of the server brings a new console at once.
  'cache-control': 'no-cache',
  vary: 'accept-encoding',
}

interface Asset {
  type: string
  etag: string
  plain: Buffer
  zipped: Buffer
}

/** The live console of web/: read, and its TypeScript made JavaScript, when a browser asks for the first of it. */
export function createConsole(): Handler {
  let loading: Promise<Map<string, Asset>> | null = null

  function assets(): Promise<Map<string, Asset>> {
    loading ??= load().catch((error) => {
      loading = null
      throw error
    })
    return loading
  }

  return async (request, response) => {
    const url = request.url?.split('?')[0] ?? '/'
    const asset = (await assets()).get(url === '/' ? 'index.html' : url.slice(CONSOLE_PATH.length))
    if (asset === undefined) return sendNotFound(response)
    const { type, etag, plain, zipped } = asset
    const headers = { ...HEADERS, etag }
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

async function load(): Promise<Map<string, Asset>> {
  const names = (await readdir(WEB)).filter((name) => path.extname(name) in CONTENT_TYPES)
  const [own, graphqlWs] = await Promise.all([read(WEB, names), graphqlWsClient()])
  const typed = Object.entries(own).filter(([name]) => name.endsWith('.ts'))
  const scripts = await stripTypes(Object.fromEntries(typed))
  const texts = Object.entries({ ...own, ...scripts, ...graphqlWs })
  return new Map(await Promise.all(texts.map(async ([name, text]) => [name, await assetOf(name, text)] as const)))
}

async function assetOf(name: string, text: string): Promise<Asset> {
  const plain = Buffer.from(text)
  const etag = `"${createHash('sha256').update(plain).digest('base64url')}"`
  return { type: CONTENT_TYPES[path.extname(name)] ?? '', etag, plain, zipped: await promisify(gzip)(plain) }
}

/** The files as text, by name. */
async function read(folder: string, names: string[]): Promise<Record<string, string>> {
  const texts = names.map(async (name) => [name, await readFile(path.join(folder, name), 'utf8')] as const)
  return Object.fromEntries(await Promise.all(texts))
}

/** graphql-ws for browsers, and what it imports, which lies beside it under a name that changes from version to version. */
async function graphqlWsClient(): Promise<Record<string, string>> {
  const folder = path.dirname(createRequire(import.meta.url).resolve('graphql-ws/client'))
  const client = await read(folder, ['client.js'])
  const imported = [...(client['client.js'] ?? '').matchAll(/from '\.\/([\w-]+\.js)'/g)].map(([, name = '']) => name)
  const files = { ...client, ...(await read(folder, [...new Set(imported)])) }
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`graphql-ws/${name}`, text]))
}

/** As JavaScript that browsers load: without types, and with the one package by its path. */
async function stripTypes(sources: Record<string, string>): Promise<Record<string, string>> {
  const worker = new Worker(new URL('./strip-types-worker.ts', import.meta.url), {
    workerData: sources,
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  const [scripts] = (await once(worker, 'message')) as [Record<string, string>]
  return Object.fromEntries(
    Object.entries(scripts).map(([name, script]) => [
      name,
      script.replaceAll("'graphql-ws/client'", `'${CONSOLE_PATH}graphql-ws/client.js'`),
    ]),
  )
}

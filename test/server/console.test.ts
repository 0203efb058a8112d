import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

const BUILT = path.resolve(import.meta.dirname, '../../web/dist')
const MOST_BYTES_OF_FIRST_LOAD = 250_000

describe('the console over HTTP', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  const ask = (path: string, init: RequestInit = {}) => fetch(parley.origin + path, init)
  /** Returns the files of the page's first load. */
  async function loadedFirst(): Promise<string[]> {
    const text = await (await ask('/')).text()
    return [...text.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, url = '']) => url)
  }

  test('is a page that loads nothing from other hosts and runs no inline script', async () => {
    const page = await ask('/')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toMatch(/^text\/html/)
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'; script-src 'self'")
    expect(policy).not.toMatch(/unsafe|http|\*/)
    expect(page.headers.get('x-content-type-options')).toBe('nosniff')
    expect(page.headers.get('x-frame-options')).toBe('DENY')
    expect(page.headers.get('referrer-policy')).toBe('no-referrer')
    const text = await page.text()
    expect(text).not.toMatch(/<script(?![^>]* src="\/)|<style|\son\w+=|(src|href)="(?!\/)/)
  })

  test('serves the page at every route of the console, and 404 at other addresses', async () => {
    const pages = [
      '/spaces/spc_1',
      '/runs',
      '/runs/run_1',
      '/why/msg_1',
      '/agents/agt_1/mind',
      '/waiting',
      '/people',
      '/people/hum_1',
      '/models',
      '/invitations/a-code',
    ]
    for (const page of pages) {
      const answer = await ask(page)
      expect([page, answer.status, answer.headers.get('content-type')]).toEqual([page, 200, 'text/html; charset=utf-8'])
    }
    for (const page of ['/nothing', '/spaces/a/b/c', '/agents/%20', '/runsx']) {
      expect([page, (await ask(page)).status]).toEqual([page, 404])
    }
  })

  test('shows people at other addresses a page with a link to their spaces', async () => {
    const missing = await ask('/nothing', { headers: { accept: 'text/html' } })
    expect([missing.status, missing.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(missing.headers.get('content-security-policy')).not.toContain('script')
    expect(await missing.text()).toContain('<a href="/">Go to your spaces</a>')
    expect((await ask('/nothing')).headers.get('content-type')).toMatch(/^text\/plain/)
  })

  test('serves the manifest and the service worker at the root, and the icons', async () => {
    const types = [
      ['/manifest.webmanifest', 'application/manifest+json', 'no-cache'],
      ['/service-worker.js', 'text/javascript; charset=utf-8', 'no-cache'],
      ['/console/icon-192.png', 'image/png', 'no-cache'],
    ] as const
    for (const [path, type, caching] of types) {
      const { status, headers } = await ask(path)
      expect([path, status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
        path,
        200,
        type,
        caching,
      ])
      expect(headers.get('content-security-policy')).toMatch(/manifest-src 'self'; worker-src 'self'/)
    }
    expect(await (await ask('/')).text()).toContain(' href="/manifest.webmanifest"')
  })

  test('serves the files of the first load, at most 250 kB', async () => {
    const urls = await loadedFirst()
    expect(urls.length).toBeGreaterThanOrEqual(3)
    let bytes = 0
    for (const url of urls) {
      const answer = await ask(url)
      expect([url, answer.status]).toEqual([url, 200])
      bytes += (await promisify(gzip)(Buffer.from(await answer.arrayBuffer()))).length
    }
    console.log(`the console's first load: ${bytes} bytes gzipped`)
    expect(bytes).toBeLessThan(MOST_BYTES_OF_FIRST_LOAD)
  })

  test('revalidates the page each time, resends it only after a change, and caches content-hashed files', async () => {
    const first = await ask('/')
    expect(first.headers.get('cache-control')).toBe('no-cache')
    const etag = first.headers.get('etag') ?? ''
    const again = await ask('/', { headers: { 'if-none-match': etag } })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect((await ask('/', { headers: { 'if-none-match': '"another"' } })).status).toBe(200)
    const script = (await loadedFirst()).find((url) => url.endsWith('.js')) ?? ''
    expect((await ask(script)).headers.get('cache-control')).toContain('immutable')
  })

  test('is read-only, and exposes no other file', async () => {
    const head = await ask('/', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await ask('/', { method: 'POST' })).status).toBe(404)
    expect((await ask('/waiting', { method: 'POST' })).status).toBe(404)
    for (const path of ['tsconfig.json', 'main.tsx', '%2e%2e/package.json', '../vite.config.ts', '']) {
      expect([path, (await ask(`/console/${path}`)).status]).toEqual([path, 404])
    }
  })

  test('has no script that requests another host or evaluates text', async () => {
    const scripts = (await readdir(path.join(BUILT, 'assets'))).filter((name) => name.endsWith('.js'))
    for (const name of scripts) {
      const text = await readFile(path.join(BUILT, 'assets', name), 'utf8')
      expect(text).not.toMatch(/new Function\(|[^.\w]eval\(/)
    }
  })
})

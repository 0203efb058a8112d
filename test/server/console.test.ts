import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

describe('the console over HTTP', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded', worker: false })
  })
  afterAll(() => parley?.close())

  const ask = (path: string, init: RequestInit = {}) => fetch(parley.origin + path, init)

  test('is a page that loads nothing from elsewhere and may run no script of its own text', async () => {
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

  test('whatever its modules import is served, as JavaScript without types', async () => {
    const seen = new Set<string>()
    async function visit(url: string): Promise<void> {
      if (seen.has(url)) return
      seen.add(url)
      const answer = await ask(url)
      expect([url, answer.status, answer.headers.get('content-type')]).toEqual([
        url,
        200,
        'text/javascript; charset=utf-8',
      ])
      const script = await answer.text()
      expect(script).not.toMatch(/^import type|^export interface/m)
      const imported = [...script.matchAll(/^(?:import|export) .* from ['"](.+)['"]/gm)].map(([, path = '']) => path)
      await Promise.all(imported.map((path) => visit(new URL(path, parley.origin + url).pathname)))
    }
    await visit('/console/main.ts')
    expect([...seen]).toEqual(expect.arrayContaining(['/console/api.ts', '/console/graphql-ws/client.js']))
  })

  test('is asked about each time, and sent again only when it is another', async () => {
    const first = await ask('/console/main.ts')
    expect(first.headers.get('cache-control')).toBe('no-cache')
    const etag = first.headers.get('etag') ?? ''
    const again = await ask('/console/main.ts', { headers: { 'if-none-match': etag } })
    expect([again.status, await again.text()]).toEqual([304, ''])
    const other = await ask('/console/main.ts', { headers: { 'if-none-match': '"another"' } })
    expect(other.status).toBe(200)
  })

  test('is read only, and gives away no other file', async () => {
    const head = await ask('/', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect((await ask('/', { method: 'POST' })).status).toBe(404)
    expect((await ask('/console/main.ts', { method: 'POST' })).status).toBe(404)
    for (const path of ['tsconfig.json', 'nothing.ts', '%2e%2e/package.json', 'graphql-ws/server.js', '']) {
      expect([path, (await ask(`/console/${path}`)).status]).toEqual([path, 404])
    }
  })
})

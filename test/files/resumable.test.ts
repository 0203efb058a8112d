import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const MOST_BYTES = 1_000_000

describe.each(RULE_STACKS)('resumable uploads, on the %s stack', (stack) => {
  let parley: TestServer
  let ada: HumanViewer
  const tokens = new Map<string, string>()
  beforeAll(async () => {
    const settings = { PARLEY_MAX_FILE_BYTES: String(MOST_BYTES) }
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
    ada = await parley.human('Ada')
  })
  afterAll(() => parley?.close())

  async function ask(viewer: Viewer, path: string, method: string, headers: Record<string, string>, body?: Buffer) {
    const token = tokens.get(viewer.id) ?? (await parley.tokenOf(viewer))
    tokens.set(viewer.id, token)
    const all = { authorization: `Bearer ${token}`, 'tus-resumable': '1.0.0', ...headers }
    return fetch(parley.origin + path, {
      method,
      headers: all,
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    })
  }
  const nameOf = (name: string) => `filename ${Buffer.from(name).toString('base64')}`
  async function begin(size: number, name = 'large.bin'): Promise<string> {
    const headers = { 'upload-length': String(size), 'upload-metadata': nameOf(name) }
    const answer = await ask(ada, '/files/tus', 'POST', headers)
    expect(answer.status).toBe(201)
    return answer.headers.get('location') ?? ''
  }
  const PATCH = 'application/offset+octet-stream'
  const patch = (at: string, offset: number, body: Buffer, viewer: Viewer = ada) =>
    ask(viewer, at, 'PATCH', { 'upload-offset': String(offset), 'content-type': PATCH }, body)
  const offsetOf = async (at: string, viewer: Viewer = ada) => {
    const answer = await ask(viewer, at, 'HEAD', {})
    return [answer.status, answer.headers.get('upload-offset')]
  }

  test('an upload in parts becomes a file with the id from its URL', async () => {
    const content = randomBytes(300_000)
    const at = await begin(content.length, 'ü/large.bin')
    expect(at).toMatch(/^\/files\/tus\/fil_[0-9a-f]{32}$/)
    expect((await patch(at, 0, content.subarray(0, 100_000))).status).toBe(204)
    expect(await offsetOf(at)).toEqual([200, '100000'])
    expect((await patch(at, 50_000, content.subarray(50_000))).status).toBe(409)
    const last = await patch(at, 100_000, content.subarray(100_000))
    const id = at.split('/').at(-1)
    expect([last.status, last.headers.get('x-file-id')]).toEqual([204, id])
    expect(await offsetOf(at)).toEqual([200, '300000'])
    const loaded = await parley.app.domain.files.open(ada, id ?? '', 'original')
    expect(loaded.name).toBe('large.bin')
    expect((await buffer(await loaded.read())).equals(content)).toBe(true)
  })

  test('the received bytes of an interrupted body are kept, and the upload continues from there', async () => {
    const content = randomBytes(200_000)
    const at = await begin(content.length)
    const headers = {
      authorization: `Bearer ${tokens.get(ada.id)}`,
      'tus-resumable': '1.0.0',
      'upload-offset': '0',
      'content-type': PATCH,
      'content-length': String(content.length),
    }
    const sending = httpRequest(parley.origin + at, { method: 'PATCH', headers })
    sending.on('error', () => {})
    sending.write(content.subarray(0, 70_000))
    await until('the first bytes are sent', async () => ((sending.socket?.bytesWritten ?? 0) > 70_000 ? true : null))
    sending.destroy()
    const offset = await until('the bytes are kept', async () => {
      const [, received] = await offsetOf(at)
      return Number(received) > 0 ? Number(received) : null
    })
    expect((await patch(at, offset, content.subarray(offset))).status).toBe(204)
    const loaded = await parley.app.domain.files.open(ada, at.split('/').at(-1) ?? '', 'original')
    expect((await buffer(await loaded.read())).equals(content)).toBe(true)
  })

  test('is refused for a file that is too large or empty, to other people, and after the upload was ended', async () => {
    expect((await ask(ada, '/files/tus', 'POST', { 'upload-length': String(MOST_BYTES + 1) })).status).toBe(413)
    expect((await ask(ada, '/files/tus', 'POST', { 'upload-length': '0' })).status).toBe(400)
    expect((await ask(parley.admin, '/files/tus', 'POST', { 'upload-length': '5' })).status).toBe(403)
    const at = await begin(5)
    const eve = await parley.human('Eve')
    expect((await offsetOf(at, eve))[0]).toBe(404)
    expect((await patch(at, 0, Buffer.from('12345'), eve)).status).toBe(404)
    expect((await patch(at, 0, Buffer.from('123456'))).status).toBe(413)
    expect((await ask(ada, at, 'DELETE', {})).status).toBe(204)
    expect((await offsetOf(at))[0]).toBe(404)
    expect((await fetch(`${parley.origin}/files/tus`, { method: 'POST' })).status).toBe(401)
  })
})

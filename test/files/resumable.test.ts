import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { StorageUnavailableError } from '../../src/platform/file-storage/file-storage.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStorage, STORAGES } from '../support/storages.ts'
import { until } from '../support/until.ts'

const MOST_BYTES = 1_000_000

const WAYS = RULE_STACKS.flatMap((stack) => STORAGES.map((storage) => ({ stack, storage })))

describe.each(WAYS)('resumable uploads to a $storage, on the $stack stack', ({ stack, storage }) => {
  let files: Awaited<ReturnType<typeof openStorage>>
  let parley: TestServer
  let ada: HumanViewer
  const tokens = new Map<string, string>()
  beforeAll(async () => {
    files = await openStorage(storage)
    const settings = { PARLEY_MAX_FILE_BYTES: String(MOST_BYTES), ...files.settings }
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
    ada = await parley.human('Ada')
  })
  afterAll(async () => {
    await parley?.close()
    await files?.close()
  })

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

  test('OPTIONS tells a tus client the version, the extensions and the largest file, and allows any header', async () => {
    const asked = { 'access-control-request-headers': 'x-request-id, upload-defer-length' }
    const { status, headers } = await fetch(`${parley.origin}/files/tus`, { method: 'OPTIONS', headers: asked })
    expect(status).toBe(204)
    expect(headers.get('access-control-allow-headers')).toBe('x-request-id, upload-defer-length')
    expect(headers.get('tus-version')).toBe('1.0.0')
    expect(headers.get('tus-extension')?.split(',')).toContain('creation')
    expect(headers.get('tus-max-size')).toBe(String(MOST_BYTES))
  })

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
    // The connection must not be reset, because the server could then lose data that it has not read yet.
    sending.socket?.end()
    const offset = await until('the bytes are kept', async () => {
      const [, received] = await offsetOf(at)
      return Number(received) > 0 ? Number(received) : null
    })
    expect((await patch(at, offset, content.subarray(offset))).status).toBe(204)
    const loaded = await parley.app.domain.files.open(ada, at.split('/').at(-1) ?? '', 'original')
    expect((await buffer(await loaded.read())).equals(content)).toBe(true)
  })

  /** Returns the keys of the parts that an action stores. */
  async function partsBy(act: () => Promise<unknown>): Promise<string[]> {
    const put = vi.spyOn(parley.app.platform.files, 'put')
    await act()
    const keys = put.mock.calls.map(([key]) => key)
    put.mockRestore()
    return keys.filter((key) => key.startsWith('uploads/'))
  }
  const isStored = async (key: string) => {
    const stream = await parley.app.platform.files.read(key)
    stream?.destroy()
    return stream !== null
  }
  /** Makes the storage unavailable when the next object with this prefix is stored or deleted. */
  function failOnce(method: 'put' | 'delete', prefix: string): void {
    const { files } = parley.app.platform
    const original = files[method] as (key: string, ...rest: unknown[]) => Promise<void>
    const spy = vi.spyOn(files, method)
    spy.mockImplementation(async (key: string, ...rest: unknown[]) => {
      if (!key.startsWith(prefix)) return original(key, ...rest)
      spy.mockRestore()
      throw new StorageUnavailableError(new Error('away'))
    })
  }

  test('an upload whose last request failed because the storage was unavailable becomes a file when the client asks for its offset', async () => {
    const content = randomBytes(50_000)
    const at = await begin(content.length)
    failOnce('put', 'objects/')
    expect((await patch(at, 0, content)).status).toBe(503)
    expect(await offsetOf(at)).toEqual([200, '50000'])
    const loaded = await parley.app.domain.files.open(ada, at.split('/').at(-1) ?? '', 'original')
    expect((await buffer(await loaded.read())).equals(content)).toBe(true)
  })

  test('an upload that two requests finish at the same time becomes one file', async () => {
    const content = randomBytes(50_000)
    const at = await begin(content.length)
    failOnce('put', 'objects/')
    expect((await patch(at, 0, content)).status).toBe(503)
    const id = at.split('/').at(-1) ?? ''
    const made = await Promise.all([1, 2, 3].map(() => parley.app.domain.resumableUploads.finish(ada, id)))
    expect(made.map((file) => file.id)).toEqual([id, id, id])
  })

  test('an upload leaves no parts behind, even if they could not be deleted when it ended', async () => {
    const content = randomBytes(50_000)
    const at = await begin(content.length)
    failOnce('delete', 'uploads/')
    const [key = ''] = await partsBy(async () => expect((await patch(at, 0, content)).status).toBe(204))
    expect(await isStored(key)).toBe(true)
    const { prisma } = parley.app.platform.db
    await prisma.fileUpload.updateMany({ data: { expiresAt: new Date(0) } })
    await parley.app.domain.resumableUploads.sweep()
    expect(await isStored(key)).toBe(false)
    expect(await prisma.fileUpload.count()).toBe(0)
  })

  test('an upload of a person who is erased is deleted by the next sweep', async () => {
    const eve = await parley.human('Eve')
    const answer = await ask(eve, '/files/tus', 'POST', {
      'upload-length': '10',
      'upload-metadata': nameOf('mine.txt'),
    })
    const at = answer.headers.get('location') ?? ''
    const send = () => patch(at, 0, Buffer.from('12345'), eve)
    const [key = ''] = await partsBy(async () => expect((await send()).status).toBe(204))
    expect(await isStored(key)).toBe(true)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: eve.id, messages: false })
    await parley.app.domain.resumableUploads.sweep()
    expect(await isStored(key)).toBe(false)
  })

  test('an upload is refused if the person has 50 unfinished uploads, also with concurrent requests', async () => {
    const dora = await parley.human('Dora')
    const begun = await Promise.all(
      Array.from({ length: 60 }, () => ask(dora, '/files/tus', 'POST', { 'upload-length': '5' })),
    )
    expect(begun.filter(({ status }) => status === 201)).toHaveLength(50)
    expect(begun.filter(({ status }) => status === 400)).toHaveLength(10)
  })

  test('an upload is refused if it is too large or empty, for other people, and after it has ended', async () => {
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

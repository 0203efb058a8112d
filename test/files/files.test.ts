import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import type { Space } from '../../src/generated/prisma/client.ts'
import { STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStorage, STORAGES } from '../support/storages.ts'
import { until } from '../support/until.ts'

const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
  __typename
  ... on SendMessagePayload { sentMessage { id text parts { __typename id index ... on FilePart { file {
    id name mediaType size url thumbnailUrl width height } } } } }
  ... on Error { message } ... on BadInputError { field } } }`
const FILES = `query ($id: ID!, $first: Int, $after: String) { space(id: $id) { files(first: $first, after: $after) {
  edges { cursor node { id name } } pageInfo { hasNextPage hasPreviousPage endCursor } } } }`
const NODE = 'query ($id: ID!) { node(id: $id) { id ... on File { name url } } }'
const MOST_BYTES = 200_000

interface Uploaded {
  id: string
  name: string
  mediaType: string
  size: number
}
interface SentFile extends Uploaded {
  url: string
}
interface Sent {
  __typename: string
  message?: string
  sentMessage: { id: string; text: string; parts: { __typename: string; file: SentFile }[] }
}

const WAYS = STACKS.flatMap((stack) => STORAGES.map((storage) => ({ stack, storage })))

describe.each(WAYS)('files in a $storage, on the $stack stack', ({ stack, storage }) => {
  let files: Awaited<ReturnType<typeof openStorage>>
  let parley: TestServer
  let ada: HumanViewer
  let bob: HumanViewer
  let eve: HumanViewer
  let space: Space
  const tokens = new Map<string, string>()
  beforeAll(async () => {
    files = await openStorage(storage)
    const limits = { PARLEY_MAX_FILE_BYTES: String(MOST_BYTES), PARLEY_MAX_FILE_BYTES_PER_DAY: '2000000' }
    const settings = { ...limits, ...files.settings }
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
    ada = await parley.human('Ada')
    bob = await parley.human('Bob')
    eve = await parley.human('Eve')
    space = await parley.space(ada, [])
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
  })
  afterAll(async () => {
    await parley?.close()
    await files?.close()
  })

  async function tokenOf(viewer: Viewer): Promise<string> {
    const token = tokens.get(viewer.id) ?? (await parley.tokenOf(viewer))
    tokens.set(viewer.id, token)
    return token
  }
  const bearer = async (viewer: Viewer) => ({ authorization: `Bearer ${await tokenOf(viewer)}` })

  async function post(viewer: Viewer, body: BodyInit, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${parley.origin}/files`, { method: 'POST', body, headers: { ...(await bearer(viewer)), ...headers } })
  }
  async function upload(viewer: Viewer, content: string | Buffer, name = 'notes.txt'): Promise<Uploaded> {
    const answer = await post(viewer, content as BodyInit, { 'x-file-name': encodeURIComponent(name) })
    expect(answer.status).toBe(201)
    return (await answer.json()) as Uploaded
  }
  async function ask<T>(viewer: Viewer, query: string, variables: object): Promise<T> {
    const client = await parley.clientOf(viewer)
    const { data, errors } = await client.ask<Record<string, unknown>>(query, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0] as T
  }
  const send = (viewer: Viewer, input: object) => ask<Sent>(viewer, SEND, { input: { spaceId: space.id, ...input } })
  async function sendOne(content: string | Buffer, name?: string): Promise<SentFile> {
    const { id } = await upload(ada, content, name)
    const sent = await send(ada, { text: '', fileIds: [id] })
    return sent.sentMessage.parts[0]!.file
  }
  const pathOf = (url: string) => url.replace(/^https?:\/\/[^/]+/, parley.origin)

  test('a person uploads and sends a file, and the members of the space download it', async () => {
    const { id, ...uploaded } = await upload(ada, 'Hello, file.', 'Grüße.txt')
    expect(id).toMatch(/^fil_[0-9a-f]{32}$/)
    expect(uploaded).toEqual({ name: 'Grüße.txt', mediaType: 'text/plain', size: 12 })
    const sent = await send(ada, { text: 'See here.', fileIds: [id] })
    expect(sent.sentMessage).toMatchObject({
      text: 'See here.',
      parts: [
        { __typename: 'TextPart', index: 0 },
        { __typename: 'FilePart', index: 1, file: { id, ...uploaded } },
      ],
    })
    const loaded = await fetch(`${parley.origin}/files/${id}`, { headers: await bearer(bob) })
    expect(loaded.status).toBe(200)
    expect(await loaded.text()).toBe('Hello, file.')
    expect(Object.fromEntries(loaded.headers)).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-disposition': `attachment; filename="Gr__e.txt"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt`,
      'content-security-policy': "sandbox; default-src 'none'",
      'x-content-type-options': 'nosniff',
      'content-length': '12',
      'accept-ranges': 'bytes',
    })
  })

  test('a form works like a raw body', async () => {
    const form = new FormData()
    form.append('caption', 'ignored')
    form.append('file', new Blob(['{"a":1}'], { type: 'text/html' }), 'data.json')
    const answer = await post(ada, form)
    expect(answer.status).toBe(201)
    expect(await answer.json()).toMatchObject({ name: 'data.json', mediaType: 'text/plain', size: 7 })
  })

  test('refuses an empty or too large body, and a form without a file or with two', async () => {
    expect((await post(ada, '')).status).toBe(400)
    expect((await post(ada, Buffer.alloc(MOST_BYTES + 1))).status).toBe(413)
    const large = new FormData()
    large.append('file', new Blob([Buffer.alloc(MOST_BYTES + 1)]), 'large.bin')
    expect((await post(ada, large)).status).toBe(413)
    const empty = new FormData()
    empty.append('file', new Blob([]), 'empty.bin')
    expect((await post(ada, empty)).status).toBe(400)
    const none = new FormData()
    none.append('caption', 'nothing')
    expect((await post(ada, none)).status).toBe(400)
    const two = new FormData()
    for (const name of ['one', 'two']) two.append(name, new Blob([name]), name)
    expect((await post(ada, two)).status).toBe(400)
    expect((await post(ada, 'no boundary', { 'content-type': 'multipart/form-data' })).status).toBe(400)
    expect((await post(ada, '--x\r\n', { 'content-type': 'multipart/form-data; boundary=x' })).status).toBe(400)
    expect((await fetch(`${parley.origin}/files`, { method: 'POST', body: 'x' })).status).toBe(401)
    expect((await fetch(`${parley.origin}/files`)).status).toBe(405)
    expect((await post(parley.admin, 'x')).status).toBe(403)
  })

  test('a truncated body leaves no file', async () => {
    const before = await parley.app.platform.db.prisma.file.count()
    const headers = { ...(await bearer(ada)), 'content-length': 1000 }
    const sending = httpRequest(`${parley.origin}/files`, { method: 'POST', headers })
    sending.on('error', () => {})
    sending.write('half of it')
    await until('the upload has begun', async () => sending.socket?.bytesWritten ?? null)
    sending.destroy()
    await upload(ada, 'another one')
    expect(await parley.app.platform.db.prisma.file.count()).toBe(before + 1)
  })

  test('the type is detected from the bytes, and names lose paths, control characters and direction marks', async () => {
    const page = await upload(ada, '<!doctype html><script>alert(1)</script>', 'image.png')
    expect(page.mediaType).toBe('text/plain')
    const zip = await upload(ada, Buffer.from('PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'latin1'), 'a.txt')
    expect(zip.mediaType).toBe('application/zip')
    expect((await upload(ada, randomBytes(100), 'page.html')).mediaType).toBe('application/octet-stream')
    expect((await upload(ada, 'x', '../../etc/passwd')).name).toBe('passwd')
    expect((await upload(ada, 'x', 'C:\\temp\\a\u0000\u202Egpj.exe')).name).toBe('agpj.exe')
    expect((await upload(ada, 'x', '..')).name).toBe('file')
    expect((await upload(ada, 'x', `${'n'.repeat(500)}.pdf`)).name).toMatch(/^n{196}\.pdf$/)
  })

  test('only the person who uploaded a file can send it, and only once', async () => {
    const { id } = await upload(ada, 'mine')
    const other = `fil_${'0'.repeat(32)}`
    const refused = [await send(bob, { text: '', fileIds: [id] }), await send(bob, { text: '', fileIds: [other] })]
    expect(refused.map(({ __typename }) => __typename)).toEqual(['NotFoundError', 'NotFoundError'])
    expect(refused[0]?.message).toBe(refused[1]?.message)
    expect(await send(ada, { text: '', fileIds: [id, id] })).toMatchObject({ field: 'input.fileIds' })
    const many = Array.from({ length: 21 }, (_, index) => `fil_${String(index).padStart(32, '0')}`)
    expect(await send(ada, { text: '', fileIds: many })).toMatchObject({ field: 'input.fileIds' })
    const both = await Promise.all([1, 2].map((n) => send(ada, { text: `attempt ${n}`, fileIds: [id] })))
    expect(both.map(({ __typename }) => __typename).sort()).toEqual(['BadInputError', 'SendMessagePayload'])
    expect(await send(ada, { text: '' })).toMatchObject({ __typename: 'BadInputError' })
  })

  test('repeating a request with its idempotency key returns the first message; different files are a conflict', async () => {
    const [one, two] = [await upload(ada, 'one'), await upload(ada, 'two')]
    const first = await send(ada, { text: '', fileIds: [one.id], idempotencyKey: 'key-1' })
    const again = await send(ada, { text: '', fileIds: [one.id], idempotencyKey: 'key-1' })
    expect(again).toEqual({ ...first, sentMessage: { ...first.sentMessage, parts: expect.anything() } })
    const other = await send(ada, { text: '', fileIds: [two.id], idempotencyKey: 'key-1' })
    expect(other.__typename).toBe('ConflictError')
  })

  test('others cannot tell a file that they may not see from one that does not exist', async () => {
    const file = await sendOne('secret of the space')
    const unsent = await upload(ada, 'not sent yet')
    for (const id of [file.id, unsent.id, `fil_${'1'.repeat(32)}`]) {
      const answer = await fetch(`${parley.origin}/files/${id}`, { headers: await bearer(eve) })
      expect([answer.status, await answer.json()]).toEqual([404, { error: 'There is no such file.' }])
      expect(await ask(eve, NODE, { id })).toBeNull()
    }
    expect(await ask(bob, NODE, { id: unsent.id })).toBeNull()
    expect(await ask(ada, NODE, { id: unsent.id })).toMatchObject({ id: unsent.id })
    expect(await ask(bob, NODE, { id: file.id })).toMatchObject({ id: file.id })
  })

  test('a download URL replaces only the token: it stops working after an hour, at the end of the membership, and after any change to it', async () => {
    const file = await sendOne('by address')
    const guest = await parley.human('Guest')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: guest.id })
    const { url } = await ask<{ url: string }>(guest, NODE, { id: file.id })
    const load = (address: string) => fetch(pathOf(address))
    expect(await (await load(url)).text()).toBe('by address')
    const forged = [
      url.replace(/viewer=hum_\w+/, `viewer=${ada.id}`),
      url.replace(/expires=\d+/, 'expires=99999999999'),
      `${url}&variant=thumbnail`,
    ]
    for (const address of forged) expect((await load(address)).status).toBe(401)
    await parley.app.domain.members.remove(ada, { spaceId: space.id, entityId: guest.id })
    expect((await load(url)).status).toBe(404)
  })

  test('ranges, conditions and HEAD', async () => {
    const file = await sendOne('0123456789')
    const url = pathOf(file.url)
    const part = async (range: string) => {
      const answer = await fetch(url, { headers: { range } })
      return [answer.status, await answer.text(), answer.headers.get('content-range')]
    }
    expect(await part('bytes=2-4')).toEqual([206, '234', 'bytes 2-4/10'])
    expect(await part('bytes=-3')).toEqual([206, '789', 'bytes 7-9/10'])
    expect(await part('bytes=8-')).toEqual([206, '89', 'bytes 8-9/10'])
    expect((await part('bytes=10-'))[0]).toBe(416)
    expect((await part('bytes=1-2,4-5'))[0]).toBe(200)
    const head = await fetch(url, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '10', ''])
    const etag = head.headers.get('etag') ?? ''
    expect(etag).toBe(`"${createHash('sha256').update('0123456789').digest('hex')}"`)
    expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).toBe(304)
    expect((await fetch(url, { headers: { range: 'bytes=0-1', 'if-range': '"other"' } })).status).toBe(200)
  })

  test('a space lists its files, newest first', async () => {
    const other = await parley.space(ada, [])
    const ids: string[] = []
    for (const name of ['a.txt', 'b.txt', 'c.txt']) ids.unshift((await upload(ada, name, name)).id)
    await ask(ada, SEND, { input: { spaceId: other.id, text: '', fileIds: ids.slice(1) } })
    await ask(ada, SEND, { input: { spaceId: other.id, text: '', fileIds: ids.slice(0, 1) } })
    type Page = { files: { edges: { node: { id: string } }[]; pageInfo: { hasNextPage: boolean; endCursor: string } } }
    const { files: first } = await ask<Page>(ada, FILES, { id: other.id, first: 2 })
    expect(first.edges.map(({ node }) => node.id)).toEqual(ids.slice(0, 2))
    expect(first.pageInfo.hasNextPage).toBe(true)
    const { files: rest } = await ask<Page>(ada, FILES, { id: other.id, first: 2, after: first.pageInfo.endCursor })
    expect(rest.edges.map(({ node }) => node.id)).toEqual(ids.slice(2))
    expect(rest.pageInfo.hasNextPage).toBe(false)
  })

  test('three people with many unfinished uploads do not keep another one from uploading', async () => {
    const unfinished: ReturnType<typeof httpRequest>[] = []
    const crowd = await Promise.all(['A', 'B', 'C'].map((name) => parley.human(name)))
    let cutOff = 0
    for (const person of crowd)
      for (let n = 0; n < 22; n++) {
        const headers = { ...(await bearer(person)), 'x-file-name': 'slow.txt', 'content-length': '100' }
        const request = httpRequest(`${parley.origin}/files`, { method: 'POST', headers })
        request.on('response', ({ statusCode }) => (cutOff += statusCode === 429 ? 1 : 0))
        request.on('error', () => {})
        request.write('slow')
        unfinished.push(request)
      }
    await until('all places are taken', () => cutOff >= 2)
    await upload(bob, 'Quick.')
    for (const request of unfinished) request.destroy()
  })

  test('beyond the daily limit of bytes, an upload is refused with a retry time', async () => {
    const carl = await parley.human('Carl')
    for (let n = 0; n < 10; n += 1) await upload(carl, Buffer.alloc(MOST_BYTES, n))
    const refused = await post(carl, 'one byte too many')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await refused.json()).toEqual({ error: expect.stringContaining('2000000 bytes a day') })
  })
})

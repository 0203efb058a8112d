import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createDeferred } from '../../../src/lib/async.ts'
import { createGuardedHttp, type GuardedHttp, type GuardedRequest } from '../../../src/tools/custom/guarded-http.ts'

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void

const seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = []
let handler: Handler = (_, response) => void response.end('ok')
let connections = 0

/** Two servers with one handler. One represents the public internet, and the other the private network. */
const outside = createServer(serve)
const inside = createServer(serve)
outside.on('connection', () => {
  connections += 1
})
let port = 0
let insidePort = 0

function serve(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString()
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
    handler(request, response, body)
  })
}

beforeAll(async () => {
  await new Promise<void>((resolve) => outside.listen(0, '127.0.0.1', resolve))
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.2', resolve))
  port = (outside.address() as AddressInfo).port
  insidePort = (inside.address() as AddressInfo).port
})

afterEach(() => {
  seen.length = 0
  connections = 0
  handler = (_, response) => void response.end('ok')
})

const names: Record<string, string[]> = {
  'public.test': ['127.0.0.1'],
  'other.test': ['127.0.0.1'],
  'private.test': ['127.0.0.2'],
  'mixed.test': ['127.0.0.1', '127.0.0.2'],
  'nowhere.test': [],
}
const resolve = async (hostname: string) => {
  const addresses = names[hostname]
  if (addresses === undefined)
    throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' })
  return addresses.map((address) => ({ address, family: 4 }))
}

/** Treats 127.0.0.1 as the public internet, and everything else as private. */
const http = createGuardedHttp({ isAllowed: (address) => address === '127.0.0.1', resolve })
const strict = createGuardedHttp()

afterAll(async () => {
  await Promise.all([http.close(), strict.close()])
  outside.closeAllConnections()
  inside.closeAllConnections()
  outside.close()
  inside.close()
})

function get(url: string, options: Partial<GuardedRequest> = {}, by: GuardedHttp = http) {
  return by.send({ method: 'GET', url, timeoutMs: 5_000, ...options })
}

const BLOCKED = {
  type: 'failure',
  code: 'BLOCKED_ADDRESS',
  message: expect.stringMatching(/is not allowed, because it is private\. .*PARLEY_ALLOW_PRIVATE_TOOLS=true\.$/),
}

describe('a guarded exchange', () => {
  test('sends the given request and returns the response', async () => {
    handler = (_, response) => void response.setHeader('content-type', 'application/json').end('{"degrees":21}')
    const url = `http://public.test:${port}/weather?city=Oslo`
    const outcome = await http.send({
      method: 'POST',
      url,
      headers: { 'X-Key': 'k' },
      body: '{"days":1}',
      timeoutMs: 5_000,
    })
    const body = Buffer.from('{"degrees":21}')
    expect(outcome).toEqual({ type: 'answer', status: 200, contentType: 'application/json', body })
    expect(seen).toMatchObject([
      {
        method: 'POST',
        url: '/weather?city=Oslo',
        body: '{"days":1}',
        headers: { host: `public.test:${port}`, 'x-key': 'k' },
      },
    ])
  })

  test('opens a new connection each time, so that no POST meets one that the server has closed', async () => {
    await get(`http://public.test:${port}/`)
    await get(`http://public.test:${port}/`)
    expect(connections).toBe(2)
  })

  test('returns a status that is not 2xx as a failure with the body of the server', async () => {
    handler = (_, response) => void response.writeHead(404).end('No such\n city')
    expect(await get(`http://public.test:${port}/`)).toMatchObject({
      type: 'failure',
      code: 'BAD_STATUS',
      message: 'The server answered with status 404: No such city',
    })
  })

  test('reports a server that cannot be reached', async () => {
    expect(await get('http://public.test:9/')).toMatchObject({ code: 'UNREACHABLE' })
    expect(await get('http://unknown.test/')).toEqual({
      type: 'failure',
      code: 'UNREACHABLE',
      message: 'The server cannot be reached: its name has no address.',
    })
    expect(await get('http://nowhere.test/')).toMatchObject({ code: 'UNREACHABLE' })
  })

  test('reports a connection that is cut during the response', async () => {
    handler = (_, response) =>
      void response.writeHead(200, { 'content-length': 10 }).write('half', () => response.destroy())
    expect(await get(`http://public.test:${port}/`)).toMatchObject({ code: 'UNREACHABLE' })
  })

  test('ends after its time limit in any phase', async () => {
    handler = () => {}
    expect(await get(`http://public.test:${port}/`, { timeoutMs: 50 })).toEqual({
      type: 'failure',
      code: 'TIMED_OUT',
      message: 'The server did not answer within 50 ms.',
    })
    handler = (_, response) => void response.write('begun')
    expect(await get(`http://public.test:${port}/`, { timeoutMs: 50 })).toMatchObject({ code: 'TIMED_OUT' })
    const never = createGuardedHttp({ resolve: () => new Promise(() => {}) })
    expect(await get('http://public.test/', { timeoutMs: 50 }, never)).toMatchObject({ code: 'TIMED_OUT' })
    await never.close()
  })

  test('ends when it is canceled, and the server notices', async () => {
    const begun = createDeferred()
    const closed = createDeferred()
    handler = (request) => {
      request.socket.on('close', () => closed.resolve())
      begun.resolve()
    }
    const stop = new AbortController()
    const outcome = get(`http://public.test:${port}/`, { signal: stop.signal })
    await begun.promise
    stop.abort()
    expect(await outcome).toMatchObject({ code: 'CANCELED' })
    await closed.promise
    expect(await get(`http://public.test:${port}/`, { signal: stop.signal })).toMatchObject({ code: 'CANCELED' })
  })

  test('accepts a response of 1 MiB, and none that is larger', async () => {
    handler = (_, response) => void response.end(Buffer.alloc(1_048_576, 'a'))
    const outcome = await get(`http://public.test:${port}/`)
    expect(outcome).toMatchObject({ type: 'answer' })
    handler = (_, response) => void response.end(Buffer.alloc(1_048_577, 'a'))
    expect(await get(`http://public.test:${port}/`)).toEqual({
      type: 'failure',
      code: 'TOO_LARGE',
      message: "The server's answer is larger than 1048576 bytes.",
    })
  })

  test('stops reading an endless response', async () => {
    const closed = createDeferred()
    handler = (request, response) => {
      request.socket.on('close', () => closed.resolve())
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536))) {}
      }
      response.on('drain', write)
      write()
    }
    expect(await get(`http://public.test:${port}/`)).toMatchObject({ code: 'TOO_LARGE' })
    await closed.promise
  })

  test('does not decompress a response, and requests no compression', async () => {
    handler = (_, response) =>
      void response.setHeader('content-encoding', 'gzip').end(gzipSync(Buffer.alloc(10_000_000)))
    expect(await get(`http://public.test:${port}/`)).toMatchObject({ type: 'answer' })
    expect(seen[0]?.headers['accept-encoding']).toBe('identity')
  })
})

describe('the URL of a request', () => {
  test.each([
    '127.0.0.1',
    'localhost',
    '127.1',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '2130706433',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '0.0.0.0',
    '[::]',
    '127.0.0.1.',
    'ⓛocalhost',
  ])('may not be this machine, written as %s', async (host) => {
    expect(await get(`http://${host}:${port}/`, {}, strict)).toEqual(BLOCKED)
    expect(connections).toBe(0)
  })

  test.each([
    '10.0.0.1',
    '192.168.0.1',
    '172.16.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '[fd00:ec2::254]',
    '[fe80::1]',
    '224.0.0.1',
  ])('may not be %s', async (host) => {
    expect(await get(`http://${host}/`, {}, strict)).toEqual(BLOCKED)
  })

  test('is checked after the name is resolved', async () => {
    expect(await get(`http://private.test:${insidePort}/`)).toEqual(BLOCKED)
    expect(await get(`https://private.test:${insidePort}/`)).toEqual(BLOCKED)
    expect(seen).toEqual([])
  })

  test('is refused if one of several is not allowed', async () => {
    expect(await get(`http://mixed.test:${port}/`)).toEqual(BLOCKED)
    expect(seen).toEqual([])
  })

  test('is resolved once for each connection, so that a name cannot change it after the check', async () => {
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const asked: string[] = []
    const rebound = createGuardedHttp({
      isAllowed: (address) => address === '127.0.0.1',
      resolve: async (hostname) => {
        asked.push(hostname)
        return (answers.shift() ?? ['127.0.0.2']).map((address) => ({ address, family: 4 }))
      },
    })
    expect(await get(`http://rebinding.test:${port}/`, {}, rebound)).toMatchObject({ type: 'answer' })
    expect(asked).toEqual(['rebinding.test'])
    expect(await get(`http://rebinding.test:${insidePort}/`, {}, rebound)).toEqual(BLOCKED)
    await rebound.close()
  })

  test('is not revealed by the error for a name', async () => {
    expect(await get('http://private.test/')).toMatchObject({
      message:
        'The address of "private.test" is not allowed, because it is private. The operator can allow private addresses with PARLEY_ALLOW_PRIVATE_TOOLS=true.',
    })
  })

  test('may be private if the operator allows it', async () => {
    const open = createGuardedHttp({ allowPrivate: true })
    expect(await get(`http://127.0.0.1:${port}/`, {}, open)).toMatchObject({ type: 'answer' })
    expect(await get(`http://localhost:${port}/`, {}, open)).toMatchObject({ type: 'answer' })
    await open.close()
  })

  test.each([
    'ftp://public.test/',
    'file:///etc/passwd',
    'data:text/plain,x',
    'not a url',
    '',
    'http://user:pass@public.test/',
    'http://user@public.test/',
  ])('is refused in %j', async (url) => {
    expect(await get(url)).toMatchObject({ type: 'failure', code: 'BAD_URL' })
  })
})

describe('a redirect', () => {
  function redirectTo(location: string, status = 302): void {
    handler = (request, response) => {
      if (request.url === '/') response.writeHead(status, { location }).end('moved')
      else response.end('there')
    }
  }

  test('is followed in a redirect, even if it is relative', async () => {
    redirectTo('/next')
    expect(await get(`http://public.test:${port}/`)).toMatchObject({ type: 'answer', body: Buffer.from('there') })
    expect(seen.map(({ url }) => url)).toEqual(['/', '/next'])
  })

  test.each([
    ['an address inside', () => `http://127.0.0.2:${insidePort}/next`],
    ['a name that leads inside', () => `http://private.test:${insidePort}/next`],
    ['another spelling of it', () => `http://[::ffff:7f00:2]:${insidePort}/next`],
  ])('a redirect to %s is not followed', async (_, location) => {
    redirectTo(location())
    expect(await get(`http://public.test:${port}/`)).toEqual(BLOCKED)
    expect(seen).toHaveLength(1)
  })

  test('a redirect to another scheme or with credentials is not followed', async () => {
    for (const location of ['file:///etc/passwd', 'ftp://public.test/', `http://a:b@public.test:${port}/next`]) {
      redirectTo(location)
      expect(await get(`http://public.test:${port}/`)).toMatchObject({ code: 'BAD_URL' })
    }
  })

  test('is followed five times, not six', async () => {
    const hops =
      (count: number): Handler =>
      (request, response) => {
        const hop = Number(request.url?.slice(1))
        if (hop < count) response.writeHead(307, { location: `/${hop + 1}` }).end()
        else response.end('there')
      }
    handler = hops(5)
    expect(await get(`http://public.test:${port}/0`)).toMatchObject({ type: 'answer' })
    handler = hops(6)
    expect(await get(`http://public.test:${port}/0`)).toEqual({
      type: 'failure',
      code: 'TOO_MANY_REDIRECTS',
      message: 'The server redirected more than 5 times.',
    })
  })

  test('keeps the headers within an origin, and sends none that may be secret to another', async () => {
    const headers = {
      Authorization: 'Bearer s',
      'X-Api-Key': 's',
      Cookie: 's',
      'Content-Type': 'text/plain',
      'Idempotency-Key': 'i',
    }
    redirectTo(`http://public.test:${port}/next`, 307)
    await http.send({ method: 'POST', url: `http://public.test:${port}/`, headers, body: 'x', timeoutMs: 5_000 })
    expect(seen[1]?.headers).toMatchObject({ authorization: 'Bearer s', 'x-api-key': 's', cookie: 's' })
    redirectTo(`http://other.test:${port}/next`, 307)
    await http.send({ method: 'POST', url: `http://public.test:${port}/`, headers, body: 'x', timeoutMs: 5_000 })
    expect(seen[3]).toMatchObject({ method: 'POST', body: 'x' })
    const names = Object.keys(seen[3]?.headers ?? {})
    expect(names).toEqual(expect.arrayContaining(['content-type', 'idempotency-key', 'host']))
    for (const secret of ['authorization', 'x-api-key', 'cookie']) expect(names).not.toContain(secret)
  })

  test.each([
    [301, 'GET', ''],
    [302, 'GET', ''],
    [303, 'GET', ''],
    [307, 'POST', 'x'],
    [308, 'POST', 'x'],
  ])('a redirect of a POST with status %i becomes a %s', async (status, method, body) => {
    redirectTo('/next', status)
    await http.send({ method: 'POST', url: `http://public.test:${port}/`, body: 'x', timeoutMs: 5_000 })
    expect(seen[1]).toMatchObject({ method, body })
  })

  test('shares the time limit and the size limit of the whole exchange', async () => {
    handler = (request, response) => {
      if (request.url === '/') response.writeHead(302, { location: '/next' }).end()
    }
    expect(await get(`http://public.test:${port}/`, { timeoutMs: 50 })).toMatchObject({ code: 'TIMED_OUT' })
  })
})

describe('the guarded fetch', () => {
  test('is not followed by a fetch with `redirect: error`, whose body is sent to no other host', async () => {
    for (const status of [302, 307]) {
      handler = (_, response) => void response.writeHead(status, { location: '/next' }).end()
      const sent = http.fetch(`http://public.test:${port}/token`, { method: 'POST', body: 'code=1', redirect: 'error' })
      await expect(sent).rejects.toThrow('The server redirected a request that must not be repeated elsewhere.')
    }
  })

  test('responds like fetch, and follows redirects under the same rules', async () => {
    handler = (request, response) => {
      if (request.url === '/mcp') response.writeHead(307, { location: '/mcp/' }).end()
      else response.setHeader('x-session', '1').end('{"a":1}')
    }
    const response = await http.fetch(`http://public.test:${port}/mcp`, {
      method: 'POST',
      body: '{}',
    })
    expect(response.headers.get('x-session')).toBe('1')
    expect(await response.json()).toEqual({ a: 1 })
    // A request of the previous test can still arrive at this time.
    const ours = seen.filter(({ url }) => url?.startsWith('/mcp'))
    expect(ours.map(({ method, url, body }) => [method, url, body])).toEqual([
      ['POST', '/mcp', '{}'],
      ['POST', '/mcp/', '{}'],
    ])
  })

  test('throws if the address is not allowed', async () => {
    await expect(http.fetch(`http://private.test:${insidePort}/`)).rejects.toThrow()
    await expect(strict.fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow()
    handler = (_, response) => void response.writeHead(302, { location: `http://127.0.0.2:${insidePort}/` }).end()
    await expect(http.fetch(`http://public.test:${port}/`)).rejects.toThrow()
    expect(seen).toHaveLength(1)
  })

  test('fails with an error if a body grows beyond its limit', async () => {
    const small = createGuardedHttp({ allowPrivate: true, maxFetchBytes: 10 })
    handler = (_, response) => void response.end('0123456789')
    expect(await (await small.fetch(`http://127.0.0.1:${port}/`)).text()).toBe('0123456789')
    handler = (_, response) => void response.end('0123456789a')
    await expect((await small.fetch(`http://127.0.0.1:${port}/`)).text()).rejects.toThrow('larger than 10 bytes')
    await small.close()
  })
})

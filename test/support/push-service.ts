import { execFileSync } from 'node:child_process'
import { createDecipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { AddressGuardOptions } from '../../src/tools/custom/guarded-connector.ts'

/** A push message as a push service received it. */
export interface ReceivedPush {
  path: string
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

/** A push service with its own certificate, under names that resolve to this machine. */
export interface PushService {
  /** The network for `AppOptions.push`, in which 127.0.0.1 counts as public. */
  network: AddressGuardOptions
  received: ReceivedPush[]
  /** The status of the next responses by path; 201 by default. */
  statuses: Map<string, number>
  /** Called before each response. */
  hold: (push: ReceivedPush) => Promise<void>
  /** Creates a new subscription of a browser. */
  browser(name?: string): Browser
  /** Returns the push messages that were sent to a browser, decrypted. */
  close(): Promise<void>
}

/** A browser's push subscription. */
export interface Browser {
  input: { endpoint: string; p256dh: string; auth: string }
  /** The browser's push messages, decrypted, oldest first. */
  // biome-ignore lint/suspicious/noExplicitAny: contents, read freely by assertions
  pushes(): any[]
}

const NAMES = ['push.example.com', 'other.example.com']
/** A name that resolves to an address that is not public. */
const INSIDE = 'inside.example.com'

export async function startPushService(): Promise<PushService> {
  const { key, cert } = certificate()
  const received: ReceivedPush[] = []
  const statuses = new Map<string, number>()
  const server = createServer({ key, cert }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', async () => {
      const push = { path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks) }
      received.push(push)
      await service.hold(push)
      const status = statuses.get(push.path) ?? 201
      if (status === 302) response.setHeader('location', `https://${NAMES[1]}:${port}/redirected`)
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const service: PushService = {
    network: {
      ca: cert,
      isAllowed: (address) => address === '127.0.0.1',
      async resolve(hostname) {
        if (hostname === INSIDE) return [{ address: '127.0.0.2', family: 4 }]
        if (NAMES.includes(hostname)) return [{ address: '127.0.0.1', family: 4 }]
        throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' })
      },
    },
    received,
    statuses,
    hold: async () => {},
    browser(host = NAMES[0] ?? '') {
      const keys = createECDH('prime256v1')
      const p256dh = keys.generateKeys()
      const auth = randomBytes(16)
      const at = `/${randomBytes(12).toString('hex')}`
      const input = {
        endpoint: `https://${host}:${port}${at}`,
        p256dh: p256dh.toString('base64url'),
        auth: auth.toString('base64url'),
      }
      const pushes = () => received.filter((push) => push.path === at).map(({ body }) => decrypted(body, keys, auth))
      return { input, pushes }
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return service
}

/** Decrypts a message with one record (RFC 8188, 8291). */
function decrypted(body: Buffer, keys: ReturnType<typeof createECDH>, auth: Buffer): unknown {
  const salt = body.subarray(0, 16)
  const sender = body.subarray(21, 21 + (body[20] ?? 0))
  const sealed = body.subarray(21 + sender.length)
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), keys.getPublicKey(), sender])
  const secret = Buffer.from(hkdfSync('sha256', keys.computeSecret(sender), auth, info, 32))
  const key = Buffer.from(hkdfSync('sha256', secret, salt, 'Content-Encoding: aes128gcm\0', 16))
  const nonce = Buffer.from(hkdfSync('sha256', secret, salt, 'Content-Encoding: nonce\0', 12))
  const decipher = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(sealed.subarray(-16))
  const plain = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
  return JSON.parse(plain.subarray(0, plain.lastIndexOf(2)).toString())
}

function certificate(): { key: string; cert: string } {
  const folder = mkdtempSync(path.join(tmpdir(), 'parley-push-'))
  const [key, cert] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
  const names = [
    '-subj',
    `/CN=${NAMES[0]}`,
    '-addext',
    `subjectAltName=${NAMES.map((name) => `DNS:${name}`).join(',')}`,
  ]
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...names, '-keyout', key, '-out', cert],
    {
      stdio: 'ignore',
    },
  )
  const made = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  rmSync(folder, { recursive: true })
  return made
}

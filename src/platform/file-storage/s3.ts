import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { AwsV4Signer } from 'aws4fetch'
import { Agent, type Dispatcher } from 'undici'
import type { S3Location } from '../../config/files.ts'
import { sleep } from '../../lib/async.ts'
import { type FileStorage, IDENTITY_KEY, StorageUnavailableError } from './file-storage.ts'
import { deleteOldFiles } from './scratch.ts'

interface S3Request {
  method: 'GET' | 'PUT' | 'DELETE'
  key: string
  headers?: Record<string, string>
  body?: () => Readable | Uint8Array
  /** The SHA-256 hash of the body, in hexadecimal. */
  sha256?: string
}

const EMPTY_SHA256 = createHash('sha256').digest('hex')
const MOST_ATTEMPTS = 3
const RETRY_AFTER_MS = 200
const SILENCE_MS = 15_000
const CONNECTIONS = 64
const SCRATCH_PREFIX = 'parley-files-'

/** Stores objects in a bucket of S3 or an S3-compatible server. Uploads and downloads are streamed. */
export function createS3Storage(settings: S3Location): FileStorage {
  const { bucket, prefix, region, endpoint, accessKeyId, secretAccessKey, sessionToken } = settings
  const dispatcher = new Agent({
    connections: CONNECTIONS,
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
    connectTimeout: SILENCE_MS,
  })
  const base =
    endpoint === null ? `https://${bucket}.s3.${region}.amazonaws.com` : `${endpoint.replace(/\/$/, '')}/${bucket}`
  let directory: Promise<string> | null = null

  async function send({
    method,
    key,
    headers = {},
    body,
    sha256 = EMPTY_SHA256,
  }: S3Request): Promise<Dispatcher.ResponseData> {
    const signer = new AwsV4Signer({
      method,
      url: `${base}/${prefix}${key}`,
      headers: { ...headers, 'x-amz-content-sha256': sha256 },
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === null ? {} : { sessionToken }),
    })
    const signed = await signer.sign()
    return dispatcher.request({
      origin: signed.url.origin,
      path: signed.url.pathname + signed.url.search,
      method,
      headers: Object.fromEntries(signed.headers),
      body: body?.() ?? null,
    })
  }

  /**
   * Returns the response, or the error if the failure is transient.
   * @throws StorageUnavailableError for any other failure
   */
  async function tryOnce(asked: S3Request, expected: readonly number[]): Promise<Dispatcher.ResponseData | Error> {
    const response = await send(asked).catch((error: Error) => error)
    if (response instanceof Error || expected.includes(response.statusCode)) return response
    const words = (await response.body.text()).slice(0, 500)
    const failure = new Error(`${asked.method} of an object: HTTP ${response.statusCode} ${words}`)
    if (response.statusCode < 500 && response.statusCode !== 429) throw new StorageUnavailableError(failure)
    return failure
  }

  /**
   * Sends a request, and repeats it after transient failures.
   * @throws StorageUnavailableError if the status is not one of the expected ones
   */
  async function request(asked: S3Request, expected: readonly number[]): Promise<Dispatcher.ResponseData> {
    for (let attempt = 1; ; attempt += 1) {
      const response = await tryOnce(asked, expected)
      if (!(response instanceof Error)) return response
      if (attempt >= MOST_ATTEMPTS) throw new StorageUnavailableError(response)
      await sleep(RETRY_AFTER_MS * attempt)
    }
  }

  async function readText(key: string): Promise<string | null> {
    const { statusCode, body } = await request({ method: 'GET', key }, [200, 404])
    const found = await text(body)
    return statusCode === 404 ? null : found
  }

  return {
    async scratch() {
      directory ??= mkdtemp(path.join(tmpdir(), SCRATCH_PREFIX)).catch((error) => {
        directory = null
        throw new StorageUnavailableError(error)
      })
      return directory
    },
    async sweepScratch(before) {
      const entries = await readdir(tmpdir(), { withFileTypes: true }).catch(() => [])
      const directories = entries.filter((entry) => entry.isDirectory() && entry.name.startsWith(SCRATCH_PREFIX))
      for (const { name } of directories) await deleteOldFiles(path.join(tmpdir(), name), before)
    },
    async put(key, stored) {
      const isFile = !(stored instanceof Uint8Array)
      const size = isFile ? stored.size : stored.byteLength
      const response = await request(
        {
          method: 'PUT',
          key,
          headers: { 'content-length': String(size) },
          body: () => (isFile ? createReadStream(stored.path) : stored),
          sha256: isFile ? stored.sha256 : createHash('sha256').update(stored).digest('hex'),
        },
        [200],
      )
      await response.body.dump()
    },
    async read(key, range) {
      const headers: Record<string, string> = range === undefined ? {} : { range: `bytes=${range.first}-${range.last}` }
      const { statusCode, body } = await request({ method: 'GET', key, headers }, [200, 206, 404])
      if (statusCode !== 404) {
        // If nobody reads a destroyed body, nothing else handles its error event.
        body.on('error', () => {})
        return body
      }
      await body.dump()
      return null
    },
    async delete(key) {
      const { body } = await request({ method: 'DELETE', key }, [200, 204, 404])
      await body.dump()
    },
    async identity() {
      const existing = await readText(IDENTITY_KEY)
      if (existing !== null) return existing
      const created = Buffer.from(randomUUID())
      const { body } = await request(
        {
          method: 'PUT',
          key: IDENTITY_KEY,
          // Status 412 means that another process has stored the id first. A server without conditional writes keeps
          // the id that was written last. Every process reads the stored id below.
          headers: { 'content-length': String(created.byteLength), 'if-none-match': '*' },
          body: () => created,
          sha256: createHash('sha256').update(created).digest('hex'),
        },
        [200, 409, 412],
      )
      await body.dump()
      const stored = await readText(IDENTITY_KEY)
      if (stored === null) throw new StorageUnavailableError(new Error('the id of the storage was not saved'))
      return stored
    },
    async close() {
      await dispatcher.close()
      if (directory !== null) await rm(await directory, { recursive: true, force: true })
    },
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Busboy } from '@fastify/busboy'
import type { Logger } from 'pino'
import { UNKNOWN_CREDENTIALS } from '../../access/credential-lookups.ts'
import type { Viewer } from '../../access/viewer.ts'
import type { FileContent } from '../../files/file-reading.ts'
import type { Domain } from '../../graphql/domain.ts'
import {
  BadInputError,
  DomainError,
  FileTooLargeError,
  ForbiddenError,
  messageOf,
  NotFoundError,
  RateLimitedError,
  UnauthenticatedError,
} from '../../lib/errors.ts'
import { createFairPlaces } from '../../lib/fair-places.ts'
import { percentDecoded } from '../../lib/percent-encoding.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { type ByteRange, StorageUnavailableError } from '../../platform/file-storage/file-storage.ts'
import type { Authentication } from './authentication.ts'
import { byteRangeOf } from './byte-range.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import type { Origins } from './origins.ts'
import { parametersOf, pathOf } from './targets.ts'

import { capabilitiesOfTus, createTusHandler, TUS_PATH } from './tus.ts'

export const FILES_PATH = /^\/files(\/|$)/
const FILE_PATH = /^\/files\/(fil_[0-9a-f]{32})$/

/** The maximum time for the body of an upload. */
export const LONGEST_UPLOAD_MS = 3_600_000
/** How long a client may pause while it sends an upload or reads a download. */
const MOST_IDLE_MS = 30_000
/**
 * The maximum number of concurrent downloads. A download from a bucket occupies one of the 64 connections to the
 * bucket, which uploads need as well.
 */
const MOST_DOWNLOADS = 48
const MOST_DOWNLOADS_OF_VIEWER = 24
/** Downloads may queue, because a page requests all its images at once. */
const MOST_WAITING_DOWNLOADS = 500
/** The maximum size of a form apart from the file. */
const LARGEST_FORM_BYTES = 65_536
const MOST_FIELDS = 20

export interface FileHandlerParts {
  files: Domain['files']
  resumableUploads: Domain['resumableUploads']
  rates: Pick<Domain['rates'], 'take'>
  authentication: Authentication
  origins: Pick<Origins, 'welcome'>
  logger: Pick<Logger, 'warn'>
  /** The maximum size of a file. */
  mostBytes: number
}

/** Handles uploads and downloads of files: `POST /files`, `/files/tus`, `GET /files/:id`. */
export function createFileHandler(parts: FileHandlerParts): Handler {
  const { files, resumableUploads, rates, authentication, origins, logger, mostBytes } = parts

  const downloads = createFairPlaces({
    most: MOST_DOWNLOADS,
    mostOfOne: MOST_DOWNLOADS_OF_VIEWER,
    mostWaiting: MOST_WAITING_DOWNLOADS,
    longestWaitMs: MOST_IDLE_MS,
    refusal: 'Too many downloads are in progress. Wait until some have finished.',
  })

  async function upload(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const viewer = await authentication.viewerOf(request, response)
    await forRequester(viewer.id, async () => {
      await rates.take('requests', viewer)
      const announced = announcedBytes(request)
      if (announced !== null && announced > mostBytes + LARGEST_FORM_BYTES)
        return sendJson(response, 413, { error: `The file is too large: at most ${mostBytes} bytes.` })
      const cutOff = cutOffSignal(request, response)
      try {
        const { name, body, bytes } = isForm(request) ? await fileOfForm(request) : fileOfBody(request)
        const file = await files.upload(viewer, { name, body, bytes, signal: cutOff })
        const { id, mediaType, size } = file
        sendJson(response, 201, { id, name: file.name, mediaType, size })
      } catch (error) {
        if (request.destroyed && !request.complete) return
        throw error
      }
    })
  }

  /**
   * Returns the viewer of a request for a file.
   * @throws UnauthenticatedError if the signed URL is no longer valid
   */
  async function readerOf(request: IncomingMessage, response: ServerResponse, id: string): Promise<Viewer> {
    const query = parametersOf(request)
    if (!query.has('signature')) return authentication.viewerOf(request, response)
    // Anybody can make up a signature, so the lookup counts towards the limit for unknown credentials.
    const viewer = await forRequester(UNKNOWN_CREDENTIALS, () => files.viewerOfAddress(id, query))
    if (viewer === null) throw new UnauthenticatedError('The URL has expired or is not valid: query `File.url` again.')
    return viewer
  }

  async function download(request: IncomingMessage, response: ServerResponse, id: string): Promise<void> {
    const viewer = await readerOf(request, response, id)
    await forRequester(viewer.id, async () => {
      await rates.take('requests', viewer)
      const isThumbnail = parametersOf(request).get('variant') === 'thumbnail'
      const content = await files.open(viewer, id, isThumbnail ? 'thumbnail' : 'original')
      const part = partOf(request, content)
      if (part.range === null) return void response.writeHead(part.status, part.headers).end()
      const { range } = part
      await downloads.run(viewer.id, async (cutOff) => {
        const body = await content.read(range)
        response.writeHead(part.status, part.headers)
        response.setTimeout(MOST_IDLE_MS, () => response.destroy())
        await pipeline(body, response, { signal: cutOff }).catch((error) => {
          response.destroy()
          const isExpected = isOfClient(error) || cutOff.aborted
          if (!isExpected) logger.warn({ fileId: id, error: messageOf(error) }, 'could not read the whole file')
        })
      })
    })
  }

  const tus = createTusHandler({
    uploads: resumableUploads,
    mostBytes,
    refusalOf(error) {
      const status = statusOf(error)
      return status === null ? null : { status, message: messageOf(error) }
    },
  })

  async function resume(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const viewer = await authentication.viewerOf(request, response)
    await forRequester(viewer.id, async () => {
      await rates.take('requests', viewer)
      cutOffSignal(request, response)
      await tus(viewer, request, response)
    })
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = pathOf(request)
    const [, id] = FILE_PATH.exec(path) ?? []
    const isTus = path === TUS_PATH || path.startsWith(`${TUS_PATH}/`)
    if (request.method === 'OPTIONS') return preflight(request, response, isTus ? capabilitiesOfTus(mostBytes) : {})
    if (isTus) return await resume(request, response)
    if (path === '/files' && request.method === 'POST') return await upload(request, response)
    if (path === '/files') return sendJson(response, 405, { error: 'Use POST.' }, { allow: 'POST' })
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (id !== undefined && !isRead) return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET, HEAD' })
    if (id === undefined) throw new NotFoundError('There is no such file.')
    await download(request, response, id)
  }

  return async (request, response) => {
    origins.welcome(request, response)
    try {
      await route(request, response)
    } catch (error) {
      if (response.headersSent) response.destroy()
      else sendFailure(response, error, logger)
    }
  }
}

/**
 * Sends the response to a refused request.
 * @throws `error` if the request did not cause it
 */
function sendFailure(response: ServerResponse, error: unknown, logger: Pick<Logger, 'warn'>): void {
  const status = statusOf(error)
  if (status === null) throw error
  if (error instanceof StorageUnavailableError)
    logger.warn({ error: messageOf(error.cause ?? error) }, 'the storage of files is unavailable')
  if (error instanceof RateLimitedError) sendTooMany(response, error)
  else sendJson(response, status, { error: messageOf(error) }, status === 503 ? { 'retry-after': '5' } : {})
}

function statusOf(error: unknown): number | null {
  if (error instanceof StorageUnavailableError) return 503
  if (error instanceof UnauthenticatedError) return 401
  if (error instanceof ForbiddenError) return 403
  if (error instanceof NotFoundError) return 404
  if (error instanceof FileTooLargeError) return 413
  return error instanceof DomainError ? 400 : null
}

/** Responds to a preflight of a browser, or to a tus client that asks what the server supports. */
function preflight(request: IncomingMessage, response: ServerResponse, headers: Record<string, string>): void {
  const asked = request.headers['access-control-request-headers']
  response.writeHead(204, {
    ...headers,
    'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE',
    ...(asked === undefined ? {} : { 'access-control-allow-headers': asked }),
    'access-control-max-age': '3600',
  })
  response.end()
}

function announcedBytes({ headers }: IncomingMessage): number | null {
  const length = Number(headers['content-length'] ?? Number.NaN)
  return Number.isNaN(length) ? null : length
}

const isForm = ({ headers }: IncomingMessage) => /^multipart\/form-data\b/i.test(headers['content-type'] ?? '')

interface SentFile {
  name: string
  body: Readable
  bytes: number | null
}

/**
 * Returns the file for a request whose body is the file itself. A header contains the name of the file, in UTF-8 or
 * percent-encoded.
 */
function fileOfBody(request: IncomingMessage): SentFile {
  const given = request.headers['x-file-name']
  const name = Buffer.from(typeof given === 'string' ? given : '', 'latin1').toString()
  return { name: percentDecoded(name) ?? name, body: request, bytes: announcedBytes(request) }
}

/**
 * Resolves once the first file of the form begins. The file's stream fails unless the form is complete and has
 * exactly one file.
 */
async function fileOfForm(request: IncomingMessage): Promise<SentFile> {
  const form = formOf(request)
  let files = 0
  const opened = new Promise<SentFile>((resolve, reject) => {
    form.on('file', (_field, stream, filename) => {
      files += 1
      stream.once('error', reject)
      if (files > 1) return stream.resume()
      const body = Readable.from(wholeOf(stream), { objectMode: false })
      resolve({ name: filename ?? '', body, bytes: null })
    })
    form.once('finish', () => reject(new BadInputError('The form contains no file.')))
    form.once('error', () => reject(new BadInputError('The form is incomplete: send it again.')))
  })
  const parsed = pipeline(request, form)
  parsed.catch(() => {})

  async function* wholeOf(stream: Readable) {
    try {
      for await (const chunk of stream) yield chunk as Buffer
      await parsed
    } catch {
      throw new BadInputError('The form is incomplete: send it again.')
    }
    if (files > 1) throw new BadInputError('Send one file at a time.')
  }
  return opened
}

/** @throws BadInputError */
function formOf({ headers }: IncomingMessage) {
  try {
    const limits = { fields: MOST_FIELDS, fieldSize: LARGEST_FORM_BYTES, files: 2, headerPairs: 50 }
    return new Busboy({ headers: { 'content-type': '', ...headers }, limits })
  } catch {
    throw new BadInputError('The Content-Type of the form has no boundary.')
  }
}

/** Returns a signal that aborts when the sender has disconnected or has paused for too long. */
function cutOffSignal(request: IncomingMessage, response: ServerResponse): AbortSignal {
  const controller = new AbortController()
  request.once('close', () => {
    if (!request.complete) controller.abort()
  })
  request.setTimeout(MOST_IDLE_MS, () => {
    if (request.complete) return
    controller.abort()
    // The client of a refused upload has already received its response, so the connection is closed.
    if (response.headersSent) request.destroy()
    else sendJson(response, 408, { error: 'The upload paused for too long: send it again.' }, { connection: 'close' })
  })
  return controller.signal
}

interface AnsweredPart {
  status: number
  headers: Record<string, string>
  /** The range of bytes to send; null if no body is sent. */
  range: ByteRange | null
}

/** Returns the part of a file to send, according to the method and conditions of the request. */
function partOf({ method, headers: asked }: IncomingMessage, content: FileContent): AnsweredPart {
  const { size, hash } = content
  const etag = `"${hash}"`
  const headers: Record<string, string> = { ...headersOf(content), etag }
  if (asked['if-none-match'] === etag) return { status: 304, headers, range: null }
  const isSame = asked['if-range'] === undefined || asked['if-range'] === etag
  const found = isSame ? byteRangeOf(asked.range, size) : null
  if (found === 'unsatisfiable')
    return { status: 416, headers: { 'content-range': `bytes */${size}`, 'content-length': '0' }, range: null }
  const range = found ?? { first: 0, last: size - 1 }
  headers['content-length'] = String(range.last - range.first + 1)
  if (found !== null) headers['content-range'] = `bytes ${range.first}-${range.last}/${size}`
  return { status: found === null ? 200 : 206, headers, range: method === 'HEAD' ? null : range }
}

/**
 * Returns headers that make browsers save the file instead of showing it as a page of this origin, and that keep
 * browsers from guessing another type. Browsers may cache the file but must revalidate it each time, because the
 * viewer may have lost access.
 */
function headersOf({ name, mediaType }: { name: string; mediaType: string }): Record<string, string> {
  return {
    'content-type': mediaType === 'text/plain' ? 'text/plain; charset=utf-8' : mediaType,
    'content-disposition': `attachment; filename="${asciiOf(name)}"; filename*=UTF-8''${escapedName(name)}`,
    'content-security-policy': "sandbox; default-src 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-cache',
    'accept-ranges': 'bytes',
  }
}

const asciiOf = (name: string) => name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
const escapedName = (name: string) =>
  encodeURIComponent(name).replaceAll(/['()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

const isOfClient = (error: NodeJS.ErrnoException) =>
  ['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE'].includes(error.code ?? '')

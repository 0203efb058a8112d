import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { DataStore, MemoryLocker, Server, Upload } from '@tus/server'
import type { Viewer } from '../../access/viewer.ts'
import type { Domain } from '../../graphql/domain.ts'

export const TUS_PATH = '/files/tus'

const EXTENSIONS = ['creation', 'creation-with-upload', 'expiration', 'termination']

/** Returns the headers with which the protocol describes a server, in the response to OPTIONS. */
export const capabilitiesOfTus = (mostBytes: number): Record<string, string> => ({
  'tus-resumable': '1.0.0',
  'tus-version': '1.0.0',
  'tus-extension': EXTENSIONS.join(','),
  'tus-max-size': String(mostBytes),
})

type Resumable = Domain['resumableUploads']

const uploadOf = ({ id, size, received, name, createdAt }: Awaited<ReturnType<Resumable['get']>>) =>
  new Upload({ id, size, offset: received, metadata: { filename: name }, creation_date: createdAt.toISOString() })

/** The data store of one viewer's uploads, in the form that the tus package requires. */
class UploadsOfViewer extends DataStore {
  readonly #uploads: Resumable
  readonly #viewer: Viewer

  constructor(uploads: Resumable, viewer: Viewer) {
    super()
    this.extensions = EXTENSIONS
    this.#uploads = uploads
    this.#viewer = viewer
  }

  override async create(upload: Upload): Promise<Upload> {
    const { id, size = 0, metadata } = upload
    const name = metadata?.['filename'] ?? metadata?.['name'] ?? ''
    const { createdAt } = await this.#uploads.begin(this.#viewer, { id, name, size })
    upload.creation_date = createdAt.toISOString()
    return upload
  }

  /**
   * If an earlier attempt to complete the upload failed, completes the upload first, because clients treat an
   * upload as a file once its offset equals its size.
   */
  override async getUpload(id: string): Promise<Upload> {
    const upload = await this.#uploads.get(this.#viewer, id)
    if (upload.received === upload.size && upload.fileId === null) await this.#uploads.finish(this.#viewer, id)
    return uploadOf(upload)
  }

  override write(body: Readable, id: string, offset: number): Promise<number> {
    return this.#uploads.append(this.#viewer, id, offset, body)
  }

  override async remove(id: string): Promise<void> {
    await this.#uploads.cancel(this.#viewer, id)
  }

  override getExpiration(): number {
    return this.#uploads.lifetimeMs
  }
}

export interface TusParts {
  uploads: Resumable
  /** The maximum size of a file. */
  mostBytes: number
  /** Returns the HTTP status and message for an error; null if the error comes from the package itself. */
  refusalOf(error: unknown): { status: number; message: string } | null
}

/**
 * Handles resumable uploads according to the protocol tus 1.0 (https://tus.io). The last segment of an upload's URL
 * becomes the id of the file.
 */
export function createTusHandler({ uploads, mostBytes, refusalOf }: TusParts) {
  const locker = new MemoryLocker()
  return (viewer: Viewer, request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const server = new Server({
      path: TUS_PATH,
      datastore: new UploadsOfViewer(uploads, viewer),
      locker,
      maxSize: mostBytes,
      relativeLocation: true,
      allowedOrigins: () => false,
      namingFunction: () => uploads.newId(),
      async onUploadFinish(_, { id }) {
        const file = await uploads.finish(viewer, id)
        return { headers: { 'x-file-id': file.id, 'x-file-media-type': file.mediaType } }
      },
      onResponseError(_, error) {
        const refusal = refusalOf(error)
        return refusal === null ? undefined : { status_code: refusal.status, body: `${refusal.message}\n` }
      },
    })
    return server.handle(request, response)
  }
}

import type { Readable } from 'node:stream'
import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import { type File, Prisma } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import type { ByteRange } from '../platform/file-storage/file-storage.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import { keyOfHash } from './stored-bytes.ts'

/** The bytes of a file, or of its thumbnail. */
export interface FileContent {
  name: string
  mediaType: string
  size: number
  /** Identifies the bytes. */
  hash: string
  /** @throws NotFoundError if they have been deleted meanwhile; StorageUnavailableError */
  read(range?: ByteRange): Promise<Readable>
}

export type FileVariant = 'original' | 'thumbnail'

/** Reads files. */
export interface FileReading {
  /** By id, in the order of the ids; null if there is none. Access is for the caller to check. */
  getMany(ids: readonly string[]): Promise<(File | null)[]>
  /** As `getMany`, with null for those that the viewer may not see. */
  visibleMany(viewer: Viewer, ids: readonly string[]): Promise<(File | null)[]>
  /** A page of the ids of each space's files, newest first. Access is for the caller to check. */
  pageMany(spaceIds: readonly string[], request: PageRequest): Promise<Page<File>[]>
  /** @throws NotFoundError if there is no such file, or the viewer may not see it */
  open(viewer: Viewer, id: string, variant: FileVariant): Promise<FileContent>
  /** Returns the path, with a query, by which the viewer can load a file for an hour, without a token. */
  addressOf(viewer: Pick<Viewer, 'id'>, id: string, variant: FileVariant): string
  /** Returns the viewer of such an address; null if it was changed, has expired, or the viewer's access has ended. */
  viewerOfAddress(id: string, query: URLSearchParams): Promise<Viewer | null>
}

const ADDRESS_SECONDS = 3600
/** The type of every thumbnail. */
export const THUMBNAIL_TYPE = 'image/webp'
const NO_SUCH_FILE = 'There is no such file.'

export function createFileReading(
  { db, files, clock, secretBox }: Platform,
  { tokens }: { tokens: Pick<Tokens, 'viewerOf'> },
): FileReading {
  async function getMany(ids: readonly string[]) {
    const wanted = wellFormedIds(ids)
    const rows = wanted.length === 0 ? [] : await db.prisma.file.findMany({ where: { id: { in: wanted } } })
    return inOrderOf(ids, rows)
  }

  async function visibleMany(viewer: Viewer, ids: readonly string[]) {
    const wanted = wellFormedIds(ids)
    if (wanted.length === 0 || viewer.scope === 'SERVICE') return ids.map(() => null)
    const rows = await db.query<File>(Prisma.sql`
      SELECT f.* FROM "File" f WHERE f.id = ANY(${wanted}::text[]) AND ${isVisibleTo(viewer)}`)
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    visibleMany,
    async pageMany(spaceIds, request) {
      const source = Prisma.sql`SELECT id FROM "File" WHERE "spaceId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: spaceIds, source, order: 'newest', request })
      const found = await getMany([...pages.values()].flatMap(({ items }) => items))
      const byId = new Map(found.flatMap((file) => (file === null ? [] : [[file.id, file] as const])))
      return spaceIds.map((id) => {
        const page = pages.get(id)!
        return { ...page, items: page.items.flatMap((fileId) => byId.get(fileId) ?? []) }
      })
    },
    async open(viewer, id, variant) {
      const [file] = prefixOf(id) === 'fil' ? await visibleMany(viewer, [id]) : []
      const hash = variant === 'original' ? file?.hash : file?.thumbnailHash
      if (file == null || hash == null) throw new NotFoundError(NO_SUCH_FILE)
      const isOriginal = variant === 'original'
      const size = isOriginal ? file.size : (await db.prisma.fileObject.findUnique({ where: { hash } }))?.size
      if (size === undefined) throw new NotFoundError(NO_SUCH_FILE)
      return {
        name: file.name,
        mediaType: isOriginal ? file.mediaType : THUMBNAIL_TYPE,
        size,
        hash,
        async read(range) {
          const stream = await files.read(keyOfHash(hash), range)
          if (stream === null) throw new NotFoundError(NO_SUCH_FILE)
          return stream
        },
      }
    },
    addressOf(viewer, id, variant) {
      const expires = String(Math.floor(clock.now() / 1000) + ADDRESS_SECONDS)
      const query = new URLSearchParams({ viewer: viewer.id, expires, ...(variant === 'original' ? {} : { variant }) })
      query.set('signature', secretBox.sign(signedText(id, query)))
      return `/files/${id}?${query}`
    },
    async viewerOfAddress(id, query) {
      const [viewerId, expires] = [query.get('viewer') ?? '', Number(query.get('expires'))]
      if (!secretBox.isSigned(signedText(id, query), query.get('signature') ?? '')) return null
      if (!(expires * 1000 > clock.now())) return null
      return tokens.viewerOf(viewerId)
    },
  }
}

const signedText = (id: string, query: URLSearchParams) =>
  JSON.stringify(['file', id, query.get('viewer'), query.get('expires'), query.get('variant')])

/**
 * A condition on a file `f`: the viewer may read the message that carries it, or has uploaded it and not sent it yet. Members
 * of a space may read all that was posted in it: its label was checked when it was posted.
 */
function isVisibleTo(viewer: Viewer): Prisma.Sql {
  if (isAdmin(viewer)) return Prisma.sql`true`
  if (viewer.scope === 'SERVICE') return Prisma.sql`false`
  return Prisma.sql`CASE WHEN f."messageId" IS NULL THEN f."ownerId" = ${viewer.id} ELSE EXISTS (
    SELECT 1 FROM "Message" m JOIN "Membership" own ON own."spaceId" = m."spaceId" AND own."entityId" = ${viewer.id}
    WHERE m.id = f."messageId") END`
}

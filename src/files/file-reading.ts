import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { LRUCache } from 'lru-cache'
import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import { confidentialAmong } from '../confidentiality/marks.ts'
import { type File, Prisma } from '../generated/prisma/client.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import type { ByteRange } from '../platform/file-storage/file-storage.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import { LARGEST_PORTRAIT_BYTES, pictureOfPortrait } from '../rules/picture.ts'
import { SHOWS_OUTPUT_SQL } from '../stores/call-store.ts'
import { pictureForModel, portraitOf } from './images.ts'
import { keyOfHash } from './stored-bytes.ts'

/** The bytes of a file or of its thumbnail. */
export interface FileContent {
  name: string
  mediaType: string
  size: number
  /** Identifies the bytes of the file. */
  hash: string
  /** @throws NotFoundError if the bytes were deleted after the file was opened; StorageUnavailableError */
  read(range?: ByteRange): Promise<Readable>
}

/** A file that an agent may read, with the sources of the file's message or call. */
export interface ReadableFile extends Pick<File, 'id' | 'name' | 'mediaType' | 'size' | 'width' | 'height'> {
  /** The space of the message; null for a file that one of the agent's own calls returned. */
  spaceId: string | null
  /** Whether the space is confidential. */
  confidential: boolean
  /** The sources of the call; empty for a message, because its own space is its source. */
  places: string[]
  /** The confidential spaces from which the message or call comes. */
  label: string[]
}

/** The beginning of a file's text. */
export interface FileText {
  id: string
  text: string
  /** The length of the whole text, not only of this part. */
  length: number
}

export type FileVariant = 'original' | 'thumbnail'

/** Reads files. */
export interface FileReading {
  /** Returns files in the order of the ids; null for an unknown id. The caller must check access. */
  getMany(ids: readonly string[]): Promise<(File | null)[]>
  /** Like `getMany`, but returns null for files that the viewer may not see. */
  visibleMany(viewer: Viewer, ids: readonly string[]): Promise<(File | null)[]>
  /** Returns a page of the ids of each space's files, newest first. The caller must check access. */
  pageMany(spaceIds: readonly string[], request: PageRequest): Promise<Page<File>[]>
  /** @throws NotFoundError if there is no such file or the viewer may not see it */
  open(viewer: Viewer, id: string, variant: FileVariant): Promise<FileContent>
  /** Returns the files that each of the calls has returned, if the viewer may see them. */
  ofCalls(viewer: Viewer, callIds: readonly string[]): Promise<File[][]>
  /** Returns a file of a message in a space of the agent, or of one of the agent's calls; null if there is none. */
  readableBy(agentId: string, id: string): Promise<ReadableFile | null>
  /** Returns the beginning of each file's text, in the order of the ids, at most `characters` in total. */
  textsOf(ids: readonly string[], characters: number): Promise<FileText[]>
  /**
   * Returns a part of a file's text, and the length of the whole text in UTF-16 units. Returns null if the file has no
   * text. The caller must check access.
   */
  textPart(id: string, offset: number, limit: number): Promise<{ text: string; length: number } | null>
  /**
   * Returns an image in the form for models; null if the file was deleted or cannot be decoded. The caller must check
   * access.
   * @throws StorageUnavailableError
   */
  pictureOf(id: string): Promise<Buffer | null>
  /**
   * Converts an image that the viewer has uploaded to a small picture of a person. Returns a data URL.
   * @throws BadInputError for any other file; StorageUnavailableError
   */
  portraitOf(viewer: Viewer, id: string): Promise<string>
  /** Returns a path with a query. With it, the viewer can load a file without a token for an hour. */
  addressOf(viewer: Pick<Viewer, 'id'>, id: string, variant: FileVariant): string
  /**
   * Returns the viewer for whom `addressOf` returned a path. Returns null if the path was changed or has expired, or if
   * the viewer has lost access.
   */
  viewerOfAddress(id: string, query: URLSearchParams): Promise<Viewer | null>
}

const ADDRESS_SECONDS = 3600
/** The type of every thumbnail. */
export const THUMBNAIL_TYPE = 'image/webp'
/** The total size of the images for models that this process caches. */
const MOST_PICTURE_BYTES = 16 * 1024 * 1024
const NO_SUCH_FILE = 'There is no such file.'
const NO_PORTRAIT =
  'This file cannot be converted to a picture. Upload a PNG, JPEG, GIF, WebP or AVIF image. If the file already has one of these formats, try again.'

export function createFileReading(
  { db, files, clock, secretBox }: Platform,
  { tokens }: { tokens: Pick<Tokens, 'viewerOf'> },
): FileReading {
  // The images are cached, because all steps of a run send the same ones.
  const pictures = new LRUCache<string, Buffer>({
    maxSize: MOST_PICTURE_BYTES,
    sizeCalculation: (one) => one.byteLength,
  })

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
    async ofCalls(viewer, callIds) {
      if (viewer.scope === 'SERVICE') return callIds.map(() => [])
      const rows = await db.query<File>(Prisma.sql`
        SELECT f.* FROM "File" f WHERE f."callId" = ANY(${wellFormedIds(callIds)}::text[]) AND ${isVisibleTo(viewer)} ORDER BY f.id`)
      const byCall = Map.groupBy(rows, ({ callId }) => callId)
      return callIds.map((id) => byCall.get(id) ?? [])
    },
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
    async readableBy(agentId, id) {
      const facts = Prisma.sql`f.id, f.name, f."mediaType", f.size, f.width, f.height`
      const [file] = await db.query<ReadableFile>(Prisma.sql`
        SELECT ${facts}, NULL AS "spaceId", false AS confidential, c.places,
          ${confidentialAmong(Prisma.sql`c.places || c.label`)} AS label
        FROM "File" f JOIN "ToolCall" c ON c.id = f."callId" AND c."agentId" = ${agentId} WHERE f.id = ${id}
        UNION ALL
        SELECT ${facts}, m."spaceId", s.confidential, '{}'::text[], ${confidentialAmong(Prisma.sql`m.places || m.label`)}
        FROM "File" f JOIN "Message" m ON m.id = f."messageId" JOIN "Space" s ON s.id = m."spaceId"
          JOIN "Membership" own ON own."spaceId" = s.id AND own."entityId" = ${agentId}
        WHERE f.id = ${id}`)
      return file ?? null
    },
    async textsOf(ids, characters) {
      const rows = await db.query<FileText>(Prisma.sql`
        SELECT "fileId" AS id, left(text, ${characters}::int) AS text, length(text)::int AS length FROM "FileText"
        WHERE "fileId" = ANY(${wellFormedIds(ids)}::text[])`)
      let left = characters
      return inOrderOf(ids, rows).flatMap((row) => {
        if (row === null || left === 0) return []
        const text = row.text.slice(0, left).toWellFormed()
        left -= text.length
        return [{ ...row, text }]
      })
    },
    async textPart(id, offset, limit) {
      const row = await db.prisma.fileText.findUnique({ where: { fileId: id } })
      if (row === null) return null
      return { text: row.text.slice(offset, offset + limit).toWellFormed(), length: row.text.length }
    },
    async pictureOf(id) {
      const known = pictures.get(id)
      const [file] = await getMany([id])
      if (file?.width == null) return null
      if (known !== undefined) return known
      const picture = await pictureForModel(async () => {
        const stream = await files.read(keyOfHash(file.hash))
        return stream && buffer(stream)
      })
      if (picture !== null) pictures.set(id, picture)
      return picture
    },
    async portraitOf(viewer, id) {
      const [file] = await visibleMany(viewer, [id])
      if (file?.ownerId !== viewer.id)
        throw new BadInputError('You have not uploaded a file with this id.', 'input.pictureFileId')
      const { thumbnailHash } = file
      const stream = thumbnailHash === null ? null : await files.read(keyOfHash(thumbnailHash))
      const portrait = stream && (await portraitOf(await buffer(stream), LARGEST_PORTRAIT_BYTES))
      if (portrait === null) throw new BadInputError(NO_PORTRAIT, 'input.pictureFileId')
      return pictureOfPortrait(portrait)
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
 * Returns a condition on a file `f`: the viewer may see the file. A viewer may see a file if the viewer may read its
 * message, or the output of the call that returned it. A viewer may also see a file that the viewer has uploaded and
 * not sent yet. Members of a space may read everything that was posted in it, because its label was checked at that
 * time.
 */
function isVisibleTo(viewer: Viewer): Prisma.Sql {
  if (isAdmin(viewer)) return Prisma.sql`true`
  if (viewer.scope === 'SERVICE') return Prisma.sql`false`
  // The same rule as for the output of a call in GraphQL (src/graphql/tool-call.ts).
  const isShownCall = Prisma.sql`EXISTS (
    SELECT 1 FROM "ToolCall" c JOIN "Membership" own ON own."spaceId" = c."spaceId" AND own."entityId" = ${viewer.id}
    WHERE c.id = f."callId" AND c."messageId" IS NOT NULL AND ${SHOWS_OUTPUT_SQL}
      AND (c.execution IS NOT NULL OR c."approvalState" IS NOT NULL OR c."grantId" IS NOT NULL))`
  return Prisma.sql`CASE WHEN f."callId" IS NOT NULL THEN ${isShownCall}
    WHEN f."messageId" IS NULL THEN f."ownerId" = ${viewer.id} ELSE EXISTS (
    SELECT 1 FROM "Message" m JOIN "Membership" own ON own."spaceId" = m."spaceId" AND own."entityId" = ${viewer.id}
    WHERE m.id = f."messageId") END`
}

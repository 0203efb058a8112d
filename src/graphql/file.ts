import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { linkTo } from './context.ts'
import { File, MessagePart, Node, Space } from './refs.ts'
import type * as shapes from './shapes.ts'

File.implement({
  description: 'A file of a message, or one that the viewer has uploaded with `POST /files`.',
  interfaces: [Node],
  fields: (t) => ({
    name: t.exposeString('name'),
    mediaType: t.exposeString('mediaType', {
      description: 'Detected from the content of the file, not from its name.',
    }),
    size: t.exposeInt('size', { description: 'In bytes.' }),
    url: t.string({
      description:
        'A signed URL from which the viewer can load the file without a token, valid for one hour. Each request checks whether the viewer may still read the file.',
      resolve: ({ id }, _, context) => linkTo(context, context.domain.files.addressOf(context.viewer, id, 'original')),
    }),
    thumbnailUrl: t.string({
      nullable: true,
      description:
        'Like `url`, but for a thumbnail of an image. The thumbnail contains no metadata. Null if there is none.',
      resolve: ({ id, thumbnailHash }, _, context) =>
        thumbnailHash === null
          ? null
          : linkTo(context, context.domain.files.addressOf(context.viewer, id, 'thumbnail')),
    }),
    width: t.exposeInt('width', { nullable: true, description: 'The width of an image in pixels, as displayed.' }),
    height: t.exposeInt('height', { nullable: true }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

builder.objectRef<shapes.PlacedPart>('FilePart').implement({
  description: 'A file of a message.',
  interfaces: [MessagePart],
  fields: (t) => ({
    file: t.field({
      type: File,
      // A viewer who sees a message may read its files.
      resolve: ({ part }, _, { loaders }) => loadExisting(loaders.files, part.type === 'file' ? part.fileId : ''),
    }),
  }),
})

builder.objectField(Space, 'files', (t) =>
  t.connection(
    {
      type: File,
      description: "The files of the space's messages, newest first.",
      complexity: sizeOfPage(),
      async resolve({ id: parentId }, page, { loaders }) {
        const found = await loaders.filePages.load({ parentId, request: idPageRequest('fil', page, parentId) })
        return connectionOf(found, idCursorWithin(parentId))
      },
    },
    { name: 'FileConnection' },
    { name: 'FileEdge' },
  ),
)

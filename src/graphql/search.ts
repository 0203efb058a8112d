import { pageRequest } from '../lib/page.ts'
import { LONGEST_QUERY } from '../rules/search-query.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf } from './connections.ts'
import { File, Message } from './refs.ts'
import type * as shapes from './shapes.ts'

const SearchOrder = builder.enumType('SearchOrder', {
  values: {
    BEST: {
      description: 'Best match first; equally good matches newest first. Only the newest 10,000 hits are ranked.',
    },
    NEWEST: {},
  } as const,
})

const SearchHit = builder.objectRef<shapes.SearchHit>('SearchHit').implement({
  fields: (t) => ({
    message: t.expose('message', { type: Message }),
    file: t.field({
      type: File,
      nullable: true,
      description: "The file whose name or text matches. Null if the match is in the message's own text.",
      resolve: ({ fileId }, _, { loaders }) => loadOptional(loaders.files, fileId),
    }),
    snippet: t.exposeString('snippet', { description: 'Plain text around the first match, on one line.' }),
    matches: t.field({
      type: t.listRef(['Int']),
      complexity: { field: 1, multiplier: 1 },
      description: 'The ranges of `snippet` that match, each as start and end in UTF-16 code units.',
      resolve: ({ matches }) => matches,
    }),
  }),
})

const SearchEdge = builder.edgeObject({ type: SearchHit, name: 'SearchEdge' })
const SearchConnection = builder.connectionObject({ type: SearchHit, name: 'SearchConnection' }, SearchEdge)

/** The complexity of a search apart from its hits. */
const COST = 500
const DEFAULT_SIZE = 20

builder.queryField('search', (t) =>
  t.field({
    type: SearchConnection,
    description: `Searches the messages and files that the viewer may read. All words of \`query\` must match; "quoted words" must match as a phrase. The search ignores case and accents, and works in any language. A word can also match the beginning or a part of a word in the text. \`query\` has at most ${LONGEST_QUERY} characters.`,
    complexity: ({ first }) => ({ field: COST, multiplier: Math.min(Math.max(first ?? DEFAULT_SIZE, 1), 100) }),
    args: {
      query: t.arg.string({ required: true }),
      spaceId: t.arg.id(),
      senderId: t.arg.id(),
      hasFile: t.arg.boolean({
        description: 'If true, finds only messages with a file. If false, finds only messages without a file.',
      }),
      since: t.arg({ type: 'DateTime', description: 'Messages sent at or after this time.' }),
      until: t.arg({ type: 'DateTime', description: 'Messages sent before this time.' }),
      order: t.arg({ type: SearchOrder, required: true, defaultValue: 'BEST' }),
      after: t.arg.string({ description: 'A cursor from an earlier page of the same search.' }),
      first: t.arg.int(),
    },
    async resolve(_, { first, after, query, order, ...filters }, { domain, viewer }) {
      const { size } = pageRequest({ first: first ?? null })
      const { spaceId = null, senderId = null, hasFile = null, since = null, until = null } = filters
      const filter = { query, spaceId, senderId, hasFile, since, until, order }
      return connectionOf(
        await domain.search.find(viewer, filter, { size, after: after ?? null }),
        ({ cursor }) => cursor,
      )
    },
  }),
)

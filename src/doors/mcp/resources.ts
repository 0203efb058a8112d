import { ResourceNotFoundError } from '@modelcontextprotocol/server'
import { isObject } from '../../lib/json.ts'
import { LIST_RESOURCES, type Message, type Page, READ_MESSAGES, type Space } from '../tasks/documents.ts'
import { OperationError, type Operations } from '../tasks/operations.ts'
import type { Exchange, Result } from './exchange.ts'
import { asProtocolError } from './task-methods.ts'

const PAGE = 50
const MESSAGES = 50
const MIME_TYPE = 'application/json'
/** A space, optionally with the position after which changes are reported. */
const SPACE_URI = /^parley:\/\/spaces\/(spc_[0-9a-f]{32})(?:\?after=([^&#]{1,500}))?$/

export const uriOf = (spaceId: string): string => `parley://spaces/${spaceId}`

/** Returns the space that a URI names; null for any other URI. */
export function spaceOf(uri: unknown): { spaceId: string; after: string | null } | null {
  const [, spaceId, after] = (typeof uri === 'string' && SPACE_URI.exec(uri)) || []
  if (spaceId === undefined) return null
  try {
    return { spaceId, after: after === undefined ? null : decodeURIComponent(after) }
  } catch {
    return null
  }
}

export interface Resources {
  list(exchange: Exchange, params: unknown): Promise<Result>
  templates(): Result
  read(exchange: Exchange, params: unknown): Promise<Result>
}

/** Spaces as resources. */
export function createResources({ run }: Pick<Operations, 'run'>, maxResponseBytes: number): Resources {
  return {
    list: ({ caller }, params) =>
      asProtocolError(async () => {
        const { cursor: after = null } = isObject(params) ? params : {}
        const { spaces } = await run<{ spaces: Page<Pick<Space, 'id' | 'name' | 'description'>> }>(
          ...([caller, LIST_RESOURCES, { first: PAGE, after }] as const),
        )
        const resources = spaces.edges.map(({ node: { id, name, description } }) => ({
          uri: uriOf(id),
          name,
          ...(description ? { description } : {}),
          mimeType: MIME_TYPE,
        }))
        const { hasNextPage, endCursor } = spaces.pageInfo
        return { resources, ...(hasNextPage ? { nextCursor: endCursor } : {}) }
      }),

    templates: () => ({
      resourceTemplates: [
        {
          uriTemplate: 'parley://spaces/{spaceId}',
          name: 'space',
          title: 'Space',
          description:
            'A space with its members, its newest messages, and the position up to which it contains everything.',
          mimeType: MIME_TYPE,
        },
      ],
    }),

    read: ({ caller }, params) =>
      asProtocolError(async () => {
        const { uri } = isObject(params) ? params : {}
        const named = spaceOf(uri)
        const missing = () => new ResourceNotFoundError(String(uri).slice(0, 500))
        if (named === null) throw missing()
        const { space } = await run<{ space: (Space & { messages: Page<Message> }) | null }>(caller, READ_MESSAGES, {
          spaceId: named.spaceId,
          last: MESSAGES,
        })
        if (space === null) throw missing()
        const { messages, ...about } = space
        const text = JSON.stringify({
          space: about,
          messages: messages.edges.map(({ node }) => node),
          hasOlder: messages.pageInfo.hasPreviousPage,
        })
        // JSON in a string of JSON, with its quotes escaped.
        if (Buffer.byteLength(JSON.stringify(text)) > maxResponseBytes)
          throw new OperationError('BAD_INPUT', 'The space is too large to read at once: use the tool read_messages.')
        return { contents: [{ uri: String(uri), mimeType: MIME_TYPE, text }] }
      }),
  }
}

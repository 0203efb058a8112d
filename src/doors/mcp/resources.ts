import { ResourceNotFoundError } from '@modelcontextprotocol/server'
import { isObject } from '../../lib/json.ts'
import { LIST_RESOURCES, type Message, type Page, READ_MESSAGES, type Space } from '../tasks/documents.ts'
import type { McpExchange, Result } from './exchange.ts'
import { asProtocolError } from './task-methods.ts'

const PAGE = 50
const MESSAGES = 50
const MIME_TYPE = 'application/json'
/** Matches the URI of a space, optionally with the cursor after which changes are reported. */
const SPACE_URI = /^parley:\/\/spaces\/(spc_[0-9a-f]{32})(?:\?after=([^&#]{1,500}))?$/

export const uriOf = (spaceId: string): string => `parley://spaces/${spaceId}`

/** Returns the id and cursor in the URI of a space; null for any other URI. */
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
  list(exchange: McpExchange, params: unknown): Promise<Result>
  templates(): Result
  read(exchange: McpExchange, params: unknown): Promise<Result>
}

/** Offers spaces as resources. */
export function createResources(): Resources {
  return {
    list: ({ caller }, params) =>
      asProtocolError(async () => {
        const { cursor: after = null } = isObject(params) ? params : {}
        const { spaces } = await caller.ask<{ spaces: Page<Pick<Space, 'id' | 'name' | 'description'>> }>(
          LIST_RESOURCES,
          { first: PAGE, after },
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
            'A space with its members, its newest messages, and the stream position up to which these are complete.',
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
        const { space } = await caller.ask<{ space: (Space & { messages: Page<Message> }) | null }>(READ_MESSAGES, {
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
        return { contents: [{ uri: String(uri), mimeType: MIME_TYPE, text }] }
      }),
  }
}

import { BadInputError } from '../../lib/errors.ts'
import { firstWithin } from '../../lib/json.ts'
import { LONGEST_QUERY } from '../../rules/search-query.ts'
import { RESULT_CHARACTERS } from '../../spaces/history.ts'
import type { RunHit } from '../../spaces/search.ts'
import { defineTool } from '../define-tool.ts'
import { ToolFailure } from '../tool.ts'
import { openSpace } from './read-messages.ts'

const DEFAULT_LIMIT = 10
const MOST_AT_ONCE = 50

/**
 * Finds messages by their words. A search in a named space counts as reading that space. Any other search leaves
 * out results that would add to the run's confidentiality label, so that a search never prevents the run from
 * posting.
 */
export const searchMessages = defineTool({
  names: { snake: 'search_messages', camel: 'searchMessages' },
  yieldsToOwn: true,
  create: ({ parts }) => ({
    description:
      'Find messages by their words, best match first, in all your spaces or in one. Use it when you need an earlier message that is not in the history that you see. All words must match.',
    inputSchema: {
      type: 'object',
      properties: {
        query: {
          type: 'string',
          minLength: 1,
          maxLength: LONGEST_QUERY,
          description: 'Words, parts of words, or "words in quotation marks" that must match as a phrase.',
        },
        spaceId: { type: 'string', description: 'Only in this space, one of YOUR SPACES.' },
        from: { type: 'string', description: 'Only messages of this person or agent: its id or its whole name.' },
        limit: {
          type: 'integer',
          minimum: 1,
          default: DEFAULT_LIMIT,
          description: `How many to return. Default ${DEFAULT_LIMIT}, at most ${MOST_AT_ONCE}.`,
        },
      },
      required: ['query'],
    },
    async execute({ query, spaceId, from, limit = DEFAULT_LIMIT }, { context: { run } }) {
      const space = spaceId == null ? null : await openSpace(parts, run, String(spaceId))
      const filter = {
        query: String(query),
        spaceId: spaceId == null ? null : String(spaceId),
        from: from == null ? null : String(from),
        limit: Math.min(Math.trunc(Number(limit)), MOST_AT_ONCE),
      }
      const { hits, learned } = await parts.search.findForRun(run, filter).catch(orBadInput)
      const found = firstWithin(hits.map(shownHit), RESULT_CHARACTERS, (hit) => JSON.stringify(hit))
      const ofSpace = space === null || spaceId == null ? [] : [String(spaceId)]
      return {
        output: { found },
        effects: {
          learned: {
            places: [...learned.places, ...ofSpace],
            label: [...learned.label, ...(space?.confidential ? ofSpace : [])],
          },
        },
      }
    },
  }),
})

const shownHit = ({ message, senderName, senderKind, spaceName, snippet, fileId }: RunHit) => ({
  id: message.id,
  spaceId: message.spaceId,
  spaceName,
  sender: senderName,
  type: senderKind === 'HUMAN' ? 'human' : 'agent',
  text: snippet,
  ...(message.threadRootId === null ? {} : { thread: message.threadRootId }),
  ...(fileId === null ? {} : { fileId }),
  timestamp: message.createdAt.toISOString(),
})

/** @throws ToolFailure if the query cannot be executed; `error` if it has another cause */
function orBadInput(error: unknown): never {
  throw error instanceof BadInputError ? new ToolFailure('BAD_INPUT', error.message) : error
}

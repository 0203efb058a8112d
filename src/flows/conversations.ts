import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { NO_SUCH_AGENT } from '../agents/existing-agent.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { type Deed, noteDeed } from '../stores/audit-store.ts'
import {
  conversationKey,
  conversationsAfter,
  findConversation,
  lockConversation,
  putConversation,
  type Utterance,
} from '../stores/conversation-store.ts'
import type { SpaceCreation } from './create-space.ts'

export interface ConversationInput {
  agentId: string
  /** The client's id of the conversation; null for a new conversation. */
  thread: string | null
  /** The name for a new space. */
  name: string
  /** The audited action under which the creation of a space is recorded. */
  deed: Deed
  /** Called before a space is created. This function can throw to prevent the creation. */
  onNew?(): void
}

/** The end of a history that the client stores itself: the human's previous message, and the answer to it. */
export interface KnownTurn {
  asked: string
  answered: string
  /** The new message. It was already posted if the client is repeating a request. */
  next: string
}

/**
 * Finds and creates the spaces for conversations between a human and an agent, for clients that do not name a space.
 */
export interface Conversations {
  /**
   * Returns the space of the viewer's conversation with the agent that has this thread id. If there is none, creates
   * it with these two members.
   * @throws ForbiddenError unless the viewer is a human; NotFoundError; and the errors of SpaceCreation.create
   */
  open(viewer: Viewer, input: ConversationInput): Promise<{ spaceId: string; isNew: boolean }>
  /** Like `open`, but returns null instead of creating a space. */
  find(viewer: Viewer, input: { agentId: string; thread: string }): Promise<string | null>
  /**
   * Returns the newest conversation that has only these two members and ends with the turn. Also returns the earlier
   * copy of the new message, if it was already posted there. Returns null if there is no such conversation.
   */
  continued(
    viewer: Viewer,
    input: KnownTurn & { agentId: string },
  ): Promise<{ spaceId: string; repeats: string | null } | null>
}

/** Thrown to roll back the creation of a space, because another request has created it in the meantime. */
class AlreadyOpen extends Error {
  readonly spaceId: string
  constructor(spaceId: string) {
    super('the conversation already has a space')
    this.spaceId = spaceId
  }
}

interface ConversationParts {
  visibility: Pick<Visibility, 'agents'>
  spaces: Pick<SpaceCreation, 'create'>
}

export function createConversations({ db }: Pick<Platform, 'db'>, parts: ConversationParts): Conversations {
  const { visibility, spaces } = parts

  /** @throws ForbiddenError, NotFoundError */
  function partiesOf(viewer: Viewer, agentId: string) {
    if (viewer.scope === 'ADMIN')
      throw new ForbiddenError('An admin token cannot converse with agents: use the token of a human.')
    if (viewer.scope === 'SERVICE')
      throw new ForbiddenError(
        'A service has no conversations: trigger the agent with the mutation triggerAgent, or use the token of a human.',
      )
    const isVisible = prefixOf(agentId) === 'agt' && visibility.agents(viewer, [agentId]).has(agentId)
    if (!isVisible) throw new NotFoundError(NO_SUCH_AGENT)
    return { humanId: viewer.id, agentId }
  }

  return {
    async open(viewer, { agentId, thread, name, deed, onNew }) {
      const parties = partiesOf(viewer, agentId)
      const key = conversationKey(parties, thread ?? newId('trg'))
      const found = await findConversation(db.prisma, key, parties)
      if (found !== null) return { spaceId: found, isNew: false }
      onNew?.()
      try {
        const space = await spaces.create(
          viewer,
          { name, routing: 'BROADCAST', memberIds: [agentId] },
          async (tx, { id }) => {
            await lockConversation(tx, key)
            const other = await findConversation(tx, key, parties)
            if (other !== null) throw new AlreadyOpen(other)
            await putConversation(tx, key, id)
            await noteDeed(tx, { ...deed, targetId: id })
          },
        )
        return { spaceId: space.id, isNew: true }
      } catch (error) {
        if (error instanceof AlreadyOpen) return { spaceId: error.spaceId, isNew: false }
        throw error
      }
    },
    async find(viewer, { agentId, thread }) {
      const parties = partiesOf(viewer, agentId)
      return findConversation(db.prisma, conversationKey(parties, thread), parties)
    },
    async continued(viewer, { agentId, asked, answered, next }) {
      const parties = partiesOf(viewer, agentId)
      const known = answered.trim()
      const ends = (await conversationsAfter(db.prisma, parties, asked)).flatMap((messages) => {
        const end = endOf(messages, viewer.id, next)
        return end === null ? [] : [end]
      })
      return matching(ends, known)
    },
  }
}

/** The end of a conversation: the answer to the last question, and an earlier copy of the new message, if any. */
interface ConversationEnd {
  spaceId: string
  answer: string
  repeats: string | null
}

/** Returns null if the conversation already continues with a different message. */
function endOf([asked, ...later]: readonly Utterance[], humanId: string, next: string): ConversationEnd | null {
  if (asked === undefined) return null
  const { spaceId } = asked
  const end = later.findIndex(({ senderId }) => senderId === humanId)
  const repeated = end === -1 ? undefined : later[end]
  if (repeated === undefined) return { spaceId, answer: textOf(later), repeats: null }
  const hasMore = later.slice(end + 1).some(({ senderId }) => senderId === humanId)
  if (repeated.text !== next || hasMore) return null
  return { spaceId, answer: textOf(later.slice(0, end)), repeats: repeated.messageId }
}

/**
 * Returns the newest conversation that ends with this answer. If there is none, returns the only conversation with a
 * similar answer; if several are similar, returns null, because a guess could be wrong.
 */
function matching(ends: readonly ConversationEnd[], known: string): ConversationEnd | null {
  const same = ends.filter(({ answer }) => answer === known)
  if (known !== '' && same[0] !== undefined) return same[0]
  const likely = known === '' ? same : ends.filter(({ answer }) => isSimilar(answer, known))
  return likely.length === 1 ? (likely[0] ?? null) : null
}

const textOf = (answer: readonly { text: string }[]) =>
  answer
    .map(({ text }) => text)
    .filter((text) => text !== '')
    .join('\n\n')
    .trim()

/**
 * Whether the client's text may be this answer. A client that disconnected early has only the beginning of the
 * answer. A client that was shown a pending decision has additional text.
 */
const isSimilar = (answer: string, known: string) =>
  answer !== '' && (answer.startsWith(known) || known.startsWith(answer))

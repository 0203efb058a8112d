import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { type CopyChange, copyAgents } from '../agents/copy-agents.ts'
import { Prisma, type Space } from '../generated/prisma/client.ts'
import { bindJob } from '../jobs/job.ts'
import { INDEX_COPY } from '../jobs/queues.ts'
import { copiedId } from '../lib/copied-id.ts'
import { ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { cut } from '../lib/json.ts'
import { checkInteger, checkName } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { recordCopy } from '../stores/copy-store.ts'
import {
  copyMessages,
  type Fork,
  holdForkedSpace,
  holdPeople,
  INDEXED_AT_ONCE,
  indexMessages,
} from '../stores/fork-store.ts'
import { insertMembers, recordFormerMembers } from '../stores/membership-store.ts'
import { insertSpace, lockUnindexed, NO_SUCH_SPACE, setUnindexed } from '../stores/space-store.ts'
import { copyThreadState } from '../stores/thread-store.ts'
import { countNewSpace } from './create-space.ts'
import { checkAgentsAreAddable } from './join-space.ts'

export interface Forking {
  /**
   * Copies a space in one transaction: the messages up to a given `seq`, and the agents. The viewer becomes the
   * copy's only human member. The copying wakes no agent and sends nothing to other servers. Only admins may do this,
   * and human members who may add each of the agents to a space.
   * @throws NotFoundError, ForbiddenError, BadInputError, LimitExceededError; ConflictError while a human of the
   * space is being erased
   */
  fork(viewer: Viewer, input: ForkSpaceInput): Promise<Space>
}

export interface ForkSpaceInput {
  spaceId: string
  atSeq?: number | null
  name?: string | null
}

interface ForkingParts {
  visibility: Pick<Visibility, 'spaces'>
  publisher: Pick<SpacePublisher, 'created'>
}

export function createForking(platform: Platform, { visibility, publisher }: ForkingParts): Forking {
  const { db } = platform
  return {
    async fork(viewer, { spaceId, atSeq, name: given }) {
      if (!(await visibility.spaces(viewer, [spaceId])).has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service cannot copy spaces.')
      const name = given == null ? null : checkName(given, 'input.name')
      const { space, memberIds } = await db.transaction((tx) =>
        copySpace(tx, platform, viewer, { spaceId, atSeq: atSeq ?? null, name }),
      )
      await publisher.created(space, memberIds)
      return space
    },
  }
}

/** Creates the job that adds the messages of a large copy to the search index, in batches. */
export const createCopyIndexing = ({ db }: Pick<Platform, 'db'>) =>
  bindJob(INDEX_COPY, async ({ spaceId }, { signal }) => {
    while (await db.transaction((tx) => indexSome(tx, spaceId))) signal.throwIfAborted()
  })

/** Indexes a batch of messages. Returns whether unindexed messages remain. */
async function indexSome(tx: Tx, spaceId: string): Promise<boolean> {
  const upTo = await lockUnindexed(tx, spaceId)
  const after = Math.max(0, upTo - INDEXED_AT_ONCE)
  if (upTo > 0) await indexMessages(tx, spaceId, { after, upTo })
  await setUnindexed(tx, spaceId, after)
  return after > 0
}

/** The part of a space to copy, and the changes to make in the copy. */
export interface SpaceCopy {
  spaceId: string
  /** The `seq` of the last message to copy; null to copy all messages. */
  atSeq: number | null
  /** The name of the copy. If null, the copy gets the name of the original with a note. */
  name: string | null
  change?: CopyChange
}

/** The maximum number of messages in a copy. The limit exists because one transaction copies all messages. */
const MOST_MESSAGES = 100_000
const LONGEST_KEPT_NAME = 190
/**
 * The number of newest messages that the copying transaction indexes, so that search finds them immediately. A copy
 * of 50,000 messages took 7 s on PostgreSQL if all messages were indexed, and 1.6 s if none were.
 */
const INDEXED_IN_TRANSACTION = 1000

/**
 * Copies a space in the caller's transaction. Until this transaction ends, no members or messages can be removed from
 * the space.
 * @throws the errors of `Forking.fork`
 */
export async function copySpace(
  tx: Tx,
  { clock, config, secretBox, jobs }: Platform,
  viewer: Viewer,
  { spaceId, atSeq, name, change }: SpaceCopy,
): Promise<{ space: Space; memberIds: string[]; fork: Fork }> {
  const now = clock.now()
  const held = prefixOf(spaceId) === 'spc' ? await holdForkedSpace(tx, spaceId) : null
  if (held === null) throw new NotFoundError(NO_SUCH_SPACE)
  const { space: original, heldIds } = held
  const upTo = checkInteger(atSeq ?? original.lastSeq, 0, original.lastSeq, 'input.atSeq')
  if (upTo - original.firstSeq >= MOST_MESSAGES)
    throw new LimitExceededError(
      `A space with more than ${MOST_MESSAGES} messages cannot be copied: pass a smaller atSeq.`,
    )
  if (await holdPeople(tx, spaceId))
    throw new ConflictError('A person who posted in this space is being erased. Try again in a few minutes.')
  const members = await tx.membership.findMany({
    where: { spaceId },
    select: { entityId: true, joinedAt: true, entity: { select: { kind: true } } },
    orderBy: [{ joinedAt: 'asc' }, { entityId: 'asc' }],
  })
  const agents = members.filter(({ entity }) => entity.kind === 'AGENT')
  const agentIds = agents.map(({ entityId }) => entityId)
  await checkAgentsAreAddable(tx, viewer, agentIds)
  await countNewSpace(tx, viewer, now, config.limits.maxNewSpacesPerDay)
  const fork: Fork = { fromId: spaceId, intoId: newId('spc'), atSeq: upTo, agentIds }
  const { intoId } = fork
  const unindexedSeq = Math.max(0, upTo - INDEXED_IN_TRANSACTION)
  const copyOf = (id: string | null) => (id === null || !agentIds.includes(id) ? null : copiedId(id, intoId))
  const { description, routing, budget, confidential, mentionNarrows, lastPickedId, lastPickedJoinedAt } = original
  const space = await insertSpace(tx, {
    id: intoId,
    name: name ?? `${cut(original.name, LONGEST_KEPT_NAME)} (copy)`,
    description,
    routing,
    confidential,
    mentionNarrows,
    budget: budget === null ? Prisma.DbNull : (budget as Prisma.InputJsonValue),
    adminAgentId: copyOf(original.adminAgentId),
    lastPickedId: copyOf(lastPickedId),
    lastPickedJoinedAt: copyOf(lastPickedId) === null ? null : lastPickedJoinedAt,
    firstSeq: Math.min(original.firstSeq, upTo + 1),
    lastSeq: upTo,
    createdAt: new Date(now),
    creatorId: viewer.scope === 'HUMAN' ? viewer.id : null,
    forkOfId: spaceId,
    forkSeq: upTo,
    unindexedSeq: unindexedSeq === 0 ? null : unindexedSeq,
  })
  await recordCopy(tx, { id: intoId, ofId: spaceId, ownerId: viewer.scope === 'HUMAN' ? viewer.id : null })
  await copyAgents(tx, fork, {
    viewer,
    at: new Date(now),
    secretBox,
    heldIds,
    ...(change === undefined ? {} : { change }),
  })
  const own = members.find(({ entityId }) => entityId === viewer.id)
  const joining = [
    ...(viewer.scope === 'HUMAN' ? [{ entityId: viewer.id, joinedAt: own?.joinedAt ?? new Date(now) }] : []),
    ...agents.map(({ entityId, joinedAt }) => ({ entityId: copiedId(entityId, intoId), joinedAt })),
  ]
  await insertMembers(
    tx,
    joining.map((member) => ({ ...member, spaceId: intoId, lastReadSeq: upTo })),
  )
  await copyMessages(tx, fork, { unindexedSeq })
  const humanId = viewer.scope === 'HUMAN' ? viewer.id : null
  await copyThreadState(tx, { fromId: spaceId, intoId, humanId, upTo, agentIds: fork.agentIds })
  if (unindexedSeq > 0) await jobs.enqueue(tx, INDEX_COPY, [{ input: { spaceId: intoId }, key: intoId }])
  const memberIds = joining.map(({ entityId }) => entityId)
  await recordFormerMembers(tx, intoId, memberIds)
  return { space, memberIds, fork }
}

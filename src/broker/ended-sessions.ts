import type { HumanRole } from '../generated/prisma/enums.ts'
import type { BrokerLogger } from './logger.ts'
import type { Signals } from './signals.ts'
import { entityChannel, SESSIONS_CHANNEL, tokenChannel } from './topics.ts'

/**
 * Publishes that sessions have ended, so that every process drops them from its cache and closes their sockets.
 * Must be called after the commit.
 */
export async function publishEndedSessions(signals: Pick<Signals, 'publish'>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const all = signals.publish(SESSIONS_CHANNEL, { type: 'ended', ids: [...ids] })
  await Promise.all([all, ...ids.map((id) => signals.publish(tokenChannel(id), { type: 'revoked' }))])
}

/**
 * Publishes that a human's role changed, so that every process drops the human's cached sessions, and closes the
 * sockets that were opened with these sessions or with JWTs of the human. Must be called after the commit. `null`
 * means that no role changed.
 */
export async function publishRoleChange(
  { signals, logger }: { signals: Pick<Signals, 'publish'>; logger: BrokerLogger },
  change: PublishedRoleChange | null,
): Promise<void> {
  if (change === null) return
  const { humanId, role, endedSessionIds, revokedTokenIds, leavesNoAdmin } = change
  logger.info({ humanId, role }, 'changed the role of a human')
  if (leavesNoAdmin)
    logger.warn(
      { humanId },
      "no person has the role ADMIN any more: from now on, only the operator's token and ADMIN tokens can administer the server",
    )
  await Promise.all([
    signals.publish(entityChannel(humanId), { type: 'role-changed' }),
    publishEndedSessions(signals, endedSessionIds),
    ...revokedTokenIds.map((id) => signals.publish(tokenChannel(id), { type: 'revoked' })),
  ])
}

interface PublishedRoleChange {
  humanId: string
  role: HumanRole
  endedSessionIds: readonly string[]
  revokedTokenIds: readonly string[]
  leavesNoAdmin: boolean
}

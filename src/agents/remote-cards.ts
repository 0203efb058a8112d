import type { Viewer } from '../access/viewer.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { keepCardSql, trustCard } from '../stores/agent-store.ts'
import { NO_SUCH_AGENT } from './existing-agent.ts'
import type { RemoteCard } from './remote-agent.ts'
import { asVersion, authorOf } from './version-recording.ts'

/**
 * Stores the card of a remote agent, unless the stored card was read later. The first card is trusted, because an
 * admin named its address. Returns the stored card; null if the agent now has a different model.
 */
export async function keepCard(
  { prisma }: Pick<Database, 'prisma'>,
  agent: { id: string; model: string },
  card: Omit<RemoteCard, 'trusted' | 'readAt'> & { readAt: number },
): Promise<RemoteCard | null> {
  const [kept] = await prisma.$queryRaw<{ card: RemoteCard }[]>(keepCardSql(agent, card))
  return kept?.card ?? null
}

/** Lets admins confirm changed agent cards. */
export interface CardConfirmation {
  /**
   * Trusts the card with the fingerprint, which must be the card that was read last, as a new version of the agent;
   * for admins only.
   * @throws ForbiddenError, NotFoundError, ConflictError
   */
  confirmCard(viewer: Viewer, input: { agentId: string; fingerprint: string }): Promise<void>
}

export function createCardConfirmation({ db, clock }: Pick<Platform, 'db' | 'clock'>): CardConfirmation {
  return {
    async confirmCard(viewer, { agentId, fingerprint }) {
      requireAdmin(viewer, 'confirm agent cards')
      const [id = ''] = wellFormedIds([agentId])
      await db.transaction(async (tx) => {
        const [agent] = await tx.$queryRaw<
          { id: string; version: number; createdAt: Date; fingerprint: string | null }[]
        >`
          SELECT a.id, a.version, e."createdAt", a."remoteCard"->>'fingerprint' AS fingerprint
          FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE a.id = ${id} FOR UPDATE OF a`
        if (agent === undefined) throw new NotFoundError(NO_SUCH_AGENT)
        if (agent.fingerprint === null) throw new NotFoundError('No agent card of this agent has been read yet.')
        if (agent.fingerprint !== fingerprint)
          throw new ConflictError(
            'The agent card has changed since you read it: read the current card, and confirm it by its fingerprint.',
          )
        const change = { ...authorOf(viewer, 'Confirmed the agent card'), at: new Date(clock.now()) }
        await asVersion(tx, agent, change, () => trustCard(tx, agent.id))
      })
    },
  }
}

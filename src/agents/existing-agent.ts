import { NotFoundError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'

export const NO_SUCH_AGENT = 'There is no such agent.'

/** @throws NotFoundError if no agent has the id */
export async function checkAgent(tx: Tx, agentId: string): Promise<void> {
  const count = await tx.agent.count({ where: { id: { in: wellFormedIds([agentId]) } } })
  if (count === 0) throw new NotFoundError(NO_SUCH_AGENT)
}

/**
 * Locks an agent's row, so that transactions which change rows of the agent run one at a time and counts are exact.
 * Does not block writes to rows that refer to the agent.
 * @throws NotFoundError if no agent has the id
 */
export async function lockAgentRow(tx: Tx, agentId: string): Promise<void> {
  const [agent] = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Agent" WHERE id = ANY(${wellFormedIds([agentId])}::text[]) FOR NO KEY UPDATE`
  if (agent === undefined) throw new NotFoundError(NO_SUCH_AGENT)
}

import type { Run } from '../generated/prisma/client.ts'
import type { Requester } from '../lib/fair-queue.ts'

/**
 * Returns the requester of a run, to whom the run's statements and schema checks are charged. For a run that was
 * written before runs had requesters, returns the agent.
 */
export function requesterOf({ requesterId, agentId }: Readonly<Pick<Run, 'requesterId' | 'agentId'>>): Requester {
  return { id: requesterId === '' ? agentId : requesterId, isPatient: true }
}

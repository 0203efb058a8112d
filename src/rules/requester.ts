import type { Run } from '../generated/prisma/client.ts'
import type { Requester } from '../lib/fair-queue.ts'

/**
 * Returns the requester of a run, among whose statements and schema checks those of the run wait for their turn. For a run that was
 * written before runs had requesters, it is the agent.
 */
export function requesterOf({ requesterId, agentId }: Readonly<Pick<Run, 'requesterId' | 'agentId'>>): Requester {
  return { id: requesterId === '' ? agentId : requesterId, isPatient: true }
}

import type { Run } from '../generated/prisma/client.ts'
import type { Requester } from '../lib/fair-queue.ts'

/**
 * Returns the requester of a run, whose quota pays for the run's database statements and schema checks. For a run that
 * was stored before runs had requesters, returns the agent.
 */
export function requesterOf({ requesterId, agentId }: Readonly<Pick<Run, 'requesterId' | 'agentId'>>): Requester {
  return { id: requesterId === '' ? agentId : requesterId, isPatient: true }
}

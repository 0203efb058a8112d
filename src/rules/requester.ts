import type { Run } from '../generated/prisma/client.ts'
import type { Requester } from '../lib/fair-queue.ts'

/** Returns the requester of a run, in whose line its statements and schema checks wait. Runs from before requesters have their agent. */
export function requesterOf({ requesterId, agentId }: Readonly<Pick<Run, 'requesterId' | 'agentId'>>): Requester {
  return { id: requesterId === '' ? agentId : requesterId, isPatient: true }
}

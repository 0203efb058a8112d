import type { Run } from '../generated/prisma/client.ts'
import type { Requester } from '../lib/fair-queue.ts'

/**
 * Returns the requester to whom the schema checks of a run are charged: the humans on whose behalf it works, else the
 * service that triggered it, else its agent. Each requester has its own queue, and a slow schema pauses only
 * that requester's checks.
 */
export function requesterOf({
  askers,
  triggerServiceId,
  agentId,
}: {
  readonly askers: readonly string[]
} & Readonly<Pick<Run, 'triggerServiceId' | 'agentId'>>): Requester {
  return { id: askers.length > 0 ? askers.join(' ') : (triggerServiceId ?? agentId), isPatient: true }
}

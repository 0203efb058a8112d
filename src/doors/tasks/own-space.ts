import type { Conversing } from '../conversing.ts'
import { type Caller, notFound } from '../exchange.ts'
import { AGENT, type Named } from './documents.ts'

/**
 * Returns the space in which the viewer converses with the agent through an endpoint. Creates the space if it does
 * not exist. `door`: the name of the endpoint, which distinguishes this conversation from other conversations of
 * the viewer and the agent.
 * @throws DoorError
 */
export async function openOwnSpace(
  conversing: Pick<Conversing, 'open'>,
  caller: Caller,
  { agentId, door }: { agentId: string; door: string },
): Promise<string> {
  const { agent } = await caller.ask<{ agent: Named | null }>(AGENT, { id: agentId })
  if (agent === null) throw notFound('There is no such agent, or you may not see it.')
  return (await conversing.open(caller, { agentId, thread: door, name: agent.name })).spaceId
}

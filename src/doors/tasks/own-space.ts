import { AGENT, type Named } from './documents.ts'
import { type Caller, OperationError, type Operations } from './operations.ts'

/**
 * Returns the space in which the viewer converses with the agent through a door; creates it if there is none.
 * `door`: its thread, so that other conversations of the two stay apart. @throws OperationError
 */
export async function openOwnSpace(
  { run, converse }: Pick<Operations, 'run' | 'converse'>,
  caller: Caller,
  { agentId, door }: { agentId: string; door: string },
): Promise<string> {
  const { agent } = await run<{ agent: Named | null }>(caller, AGENT, { id: agentId })
  if (agent === null) throw new OperationError('NOT_FOUND', 'There is no such agent, or you may not see it.')
  return converse(caller, { agentId, thread: door, name: agent.name })
}

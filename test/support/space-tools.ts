import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { CreateSpaceInput } from '../../src/flows/create-space.ts'
import type { Message, Run, Space, ToolCall } from '../../src/generated/prisma/client.ts'
import type { TestApplication } from './application.ts'
import type { ModelAction } from './model-server-script.ts'
import { until } from './until.ts'

/** A space under ADMIN routing with one human and agents with the toolset SPACE_TOOLS. The first agent is the admin agent. */
export interface SpaceToolsRoom {
  human: HumanViewer
  agents: { id: string; name: string }[]
  space: Space
}

export interface RoomOptions {
  human?: HumanViewer
  names?: string[]
  input?: Partial<CreateAgentInput>
  space?: Partial<CreateSpaceInput>
}

export async function spaceToolsRoom(parley: TestApplication, options: RoomOptions = {}): Promise<SpaceToolsRoom> {
  const { names = ['Ada'], input = {} } = options
  const human = options.human ?? (await parley.human('Husam'))
  const agents = []
  for (const name of names) agents.push(await parley.agent(name, { toolset: 'SPACE_TOOLS', ...input }))
  const space = await parley.space(
    human,
    agents.map(({ id }) => id),
    { routing: 'ADMIN', adminAgentId: agents[0]?.id ?? null, ...options.space },
  )
  return { human, agents, space }
}

/** Returns the call with which a scripted model posts in a space. `more` contains the call's mention or wait. */
export const sayIn = (spaceId: string, text: string, more: object = {}): ModelAction => ({
  toolCall: 'sendSpaceMessage',
  input: { spaceId, text, ...more },
})

/** Returns the runs of an agent, oldest first. */
export function runsOf(parley: TestApplication, agentId: string): Promise<Run[]> {
  return parley.app.platform.db.prisma.run.findMany({ where: { agentId }, orderBy: { id: 'asc' } })
}

/** Returns the agent's n-th run, once it has ended. */
export async function endedRun(parley: TestApplication, agentId: string, n = 0): Promise<Run> {
  const run = await until(`run ${n} of ${agentId} exists`, async () => (await runsOf(parley, agentId))[n])
  return parley.runWhen(run.id)
}

export async function callsOf(parley: TestApplication, runId: string): Promise<ToolCall[]> {
  return (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
}

/** Returns the messages of an agent in a space, in order. */
export async function messagesOf(parley: TestApplication, spaceId: string, senderId: string): Promise<Message[]> {
  return (await parley.messages(spaceId)).filter((message) => message.senderId === senderId)
}

/** Returns the texts of a message's parts. A tool part is represented by the id of its call. */
export function textsOf(message: Message | undefined): string[] {
  const parts = (message?.parts ?? []) as ({ type: 'text'; text: string } | { type: 'tool'; toolCallId: string })[]
  return parts.map((part) => (part.type === 'text' ? part.text : part.toolCallId))
}

/** A gate at which a scripted model waits. */
export function gate(): { promise: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { promise, open: resolve }
}

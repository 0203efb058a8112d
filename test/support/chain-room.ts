import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { Message, Run, ToolCall } from '../../src/generated/prisma/client.ts'
import type { Chain } from '../../src/rules/chain.ts'
import { messageOfRow, textOf } from '../../src/rules/message.ts'
import { chainOfRow } from '../../src/stores/chain-store.ts'
import type { TestApplication } from './application.ts'
import { type Turn, takesTurns } from './turns.ts'
import { until } from './until.ts'

export interface Player {
  id: string
  name: string
}

/** The application of the room. */
export type RoomHost = Pick<TestApplication, 'app' | 'models' | 'human' | 'agent' | 'space' | 'messages'>

/** A space under MENTION_CHAIN routing with a human and agents whose turns are scripted. */
export interface ChainRoom<Names extends string> {
  spaceId: string
  human: HumanViewer
  agents: Record<Names, Player>
  /** Scripts the next runs of an agent, one turn for each. */
  plays(name: Names, ...turns: Turn[]): void
  /** Posts as the human. Resolves once the chains of the space have ended. */
  hears(text?: string, mentionedAgentId?: string | null): Promise<void>
  /** Posts as the human. Resolves at once. */
  says(text: string, mentionedAgentId?: string | null): Promise<{ message: { id: string }; runs: Run[] }>
  chainsEnd(timeoutMs?: number): Promise<void>
  /** Returns the chains of the space, oldest first. */
  chains(): Promise<Chain[]>
  /** Returns `<name>: <text>` for every complete message, in order. The text of an incomplete message is `?`. */
  conversation(): Promise<string[]>
  messages(): Promise<Message[]>
  /** Returns `<name> <status>` for every run of the room's agents, in order. */
  story(): Promise<string[]>
  runs(): Promise<Run[]>
  /** Returns the calls of a tool, in order. */
  calls(toolName: string): Promise<ToolCall[]>
  /** Returns `<name> <kind>` for each outcome of a message. */
  outcomes(messageId: string): Promise<string[]>
}

let rooms = 0

/**
 * Builds a room whose agents have unique names: in the seventh room, `agents.Ada` is "Ada 7". They take turns in the given
 * order.
 */
export async function openChainRoom<Names extends string>(
  parley: RoomHost,
  names: Names[],
  inputs: Partial<Record<Names, Partial<CreateAgentInput>>> = {},
): Promise<ChainRoom<Names>> {
  const number = ++rooms
  const { prisma } = parley.app.platform.db
  const human = await parley.human(`Husam ${number}`)
  const players: [Names, Player][] = []
  for (const name of names) players.push([name, await parley.agent(`${name} ${number}.`, inputs[name])])
  const agents = Object.fromEntries(players) as Record<Names, Player>
  const memberIds = players.map(([, { id }]) => id)
  const space = await parley.space(human, memberIds, { routing: 'MENTION_CHAIN', name: `Room ${number}` })
  const shortNames = new Map<string, string>([
    ...players.map(([name, { id }]) => [id, name] as const),
    [human.id, 'Husam'],
  ])
  const nameOf = (id: string) => shortNames.get(id) ?? id
  const room: ChainRoom<Names> = {
    spaceId: space.id,
    human,
    agents,
    plays: (name, ...turns) => takesTurns(parley.models, agents[name].name, ...turns),
    says: (text, mentionedAgentId = null) =>
      parley.app.domain.sending.send(human, { spaceId: space.id, text, mentionedAgentId }),
    async hears(text = 'Hello?', mentionedAgentId = null) {
      await room.says(text, mentionedAgentId)
      await room.chainsEnd()
    },
    async chainsEnd(timeoutMs) {
      await until('the chains have ended', async () => (await livingTurns()) === 0, { timeoutMs })
    },
    async chains() {
      const ids = (await room.runs()).flatMap(({ chainId }) => chainId ?? [])
      return (await prisma.chain.findMany({ where: { id: { in: ids } }, orderBy: { id: 'asc' } })).map(chainOfRow)
    },
    async conversation() {
      return (await room.messages()).map((row) => {
        const whole = row.status === 'COMPLETE' ? '' : '?'
        return `${nameOf(row.senderId)}${whole}: ${textOf(messageOfRow(row).parts)}`
      })
    },
    messages: () => parley.messages(space.id),
    story: async () => (await room.runs()).map(({ agentId, status }) => `${nameOf(agentId)} ${status}`),
    runs: () => prisma.run.findMany({ where: { agentId: { in: memberIds } }, orderBy: { id: 'asc' } }),
    calls: (toolName) =>
      prisma.toolCall.findMany({ where: { agentId: { in: memberIds }, toolName }, orderBy: { id: 'asc' } }),
    async outcomes(messageId) {
      const rows = await prisma.outcome.findMany({ where: { messageId } })
      return rows.map(({ agentId, kind }) => `${nameOf(agentId)} ${kind}`).sort()
    },
  }

  /**
   * Count unfinished runs and waiting events in one statement, because the next turn starts in the transaction that ends a
   * turn.
   */
  async function livingTurns(): Promise<number> {
    const [row] = await prisma.$queryRaw<{ count: number }[]>`
      SELECT ((SELECT count(*) FROM "Run" WHERE "agentId" = ANY(${memberIds}) AND status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL'))
        + (SELECT count(*) FROM "InboxEvent" WHERE "agentId" = ANY(${memberIds}) AND "doneAt" IS NULL))::int AS count`
    return row?.count ?? 0
  }
  return room
}

import type { ModelMessage } from 'ai'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { CycleSettingsInput } from '../../src/agents/cycle-settings.ts'
import type { Cycle, InboxEvent, Outcome, Run } from '../../src/generated/prisma/client.ts'
import type { TestApplication } from './application.ts'
import type { ModelAction, ModelRequest, ModelScript } from './model-server-script.ts'
import { steps } from './model-server-script.ts'
import { until } from './until.ts'

/** Helpers for tests of persistent agents in an application. */
export interface Thinking {
  /** Creates a persistent agent. */
  bot(
    name: string,
    cycle?: CycleSettingsInput,
    input?: Partial<CreateAgentInput>,
  ): Promise<{ id: string; name: string }>
  /** Resolves when the agent has no unfinished cycle, and its inbox has no waiting events except those of later retries. */
  rest(...agents: { id: string }[]): Promise<void>
  cyclesOf(agent: { id: string }): Promise<Cycle[]>
  /** Returns the runs of the agent, oldest first. */
  runsOf(agent: { id: string }): Promise<Run[]>
  inboxOf(agent: { id: string }): Promise<InboxEvent[]>
  outcomeOf(message: { id: string }, agent: { id: string }): Promise<Outcome | null>
  cycleCountOf(agent: { id: string }): Promise<number>
  /** Returns the current cycle. */
  cycleUnderWay(agent: { id: string }): Promise<Run>
}

export function thinkingOn({ app, agent }: TestApplication): Thinking {
  const { prisma } = app.platform.db
  return {
    bot: (name, cycle = {}, input = {}) => agent(name, { mind: 'PERSISTENT', cycle, ...input }),
    async rest(...agents) {
      const ids = agents.map(({ id }) => id)
      // Use one statement. Agents wake each other, so two statements could see the state before one wake-up and after another.
      await until(`${ids.join()} have handled all events`, async () => {
        const [row] = await prisma.$queryRaw<{ isOpen: boolean }[]>`
          SELECT EXISTS (SELECT 1 FROM "InboxEvent" WHERE "agentId" = ANY(${ids}) AND "doneAt" IS NULL AND "retryAt" IS NULL)
            OR EXISTS (SELECT 1 FROM "Run" WHERE "agentId" = ANY(${ids}) AND status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')) AS "isOpen"`
        return row?.isOpen === false
      })
    },
    cyclesOf: ({ id: agentId }) => prisma.cycle.findMany({ where: { agentId }, orderBy: { index: 'asc' } }),
    runsOf: ({ id: agentId }) => prisma.run.findMany({ where: { agentId }, orderBy: { id: 'asc' } }),
    inboxOf: ({ id: agentId }) => prisma.inboxEvent.findMany({ where: { agentId }, orderBy: { id: 'asc' } }),
    outcomeOf: ({ id: messageId }, { id: agentId }) => prisma.outcome.findFirst({ where: { messageId, agentId } }),
    cycleCountOf: async ({ id }) => (await prisma.agent.findUniqueOrThrow({ where: { id } })).cycleCount,
    cycleUnderWay: ({ id: agentId }) =>
      until(`${agentId} thinks`, () =>
        prisma.run.findFirst({ where: { agentId, triggerType: 'INBOX', status: 'RUNNING' } }),
      ),
  }
}

/** Returns the last user message of a request that was not inserted before a later step. */
export function inboxIn({ messages }: ModelRequest): string {
  return messages.findLast(({ role, text }) => role === 'user' && text.startsWith('INBOX'))?.text ?? ''
}

/** Returns the message inserted before a later step, if it is the last message. */
export function interjectionIn({ messages }: ModelRequest): string | null {
  const last = messages.at(-1)
  return last?.role === 'user' && last.text.startsWith('[') ? last.text : null
}

/** Returns the id of the space of the first event. */
export function spaceIn(request: ModelRequest): string {
  return /\(id: (spc_\w+)\)/.exec(inboxIn(request))?.[1] ?? ''
}

/** Enters the space of the first event and posts there. Then plays each further generation, and ends. */
export function answer(text: string, ...further: ModelAction[][]): ModelScript {
  return (request) =>
    steps(
      [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
      [{ toolCall: 'send_message', input: { text } }],
      ...further,
    )(request)
}

export const skip = (reason: string): ModelAction[] => [{ toolCall: 'skip', input: { reason } }]

/**
 * Returns the fault that a provider would find in a list of messages: a call without exactly one result right after it, or a
 * result without its call.
 */
export function imbalanceOf(messages: unknown[]): string | null {
  let open: string[] = []
  for (const message of messages as ModelMessage[]) {
    if (message.role === 'tool') {
      const answered = message.content.flatMap((part) => (part.type === 'tool-result' ? [part.toolCallId] : []))
      if (answered.join() !== open.join()) return `calls ${open.join()} were answered by ${answered.join()}`
      open = []
      continue
    }
    if (open.length > 0) return `no results for ${open.join()}`
    if (message.role !== 'assistant' || typeof message.content === 'string') continue
    open = message.content.flatMap((part) => (part.type === 'tool-call' ? [part.toolCallId] : []))
  }
  return open.length > 0 ? `no results for ${open.join()}` : null
}

import type { Prisma, Toolset } from '../generated/prisma/client.ts'
import { cutSaying, firstWithin, nameIn, oneLine } from '../lib/json.ts'
import type { TurnOutcome, WokenBy } from '../rules/chain.ts'
import { chainOfRow } from '../stores/chain-store.ts'

/** The data of the chain section in a prompt. */
export interface ChainScene {
  /** The number of this run's turn in the chain. */
  turn: number
  /** Agents that wait to be called back, the next one first. */
  waiters: { id: string; name: string; spaceId: string }[]
}

/** A MENTION_CHAIN space as the agent sees it. */
interface ChainSpace {
  name: string
  members: { id: string; name: string; kind: 'HUMAN' | 'AGENT'; description: string | null }[]
}

/** The agent that has the turn. */
interface ChainAgent {
  id: string
  toolset: Toolset
}

export async function loadChain(
  db: Prisma.TransactionClient,
  { chainId }: { chainId: string | null },
): Promise<ChainScene | null> {
  const row = chainId === null ? null : await db.chain.findUnique({ where: { id: chainId } })
  if (row === null) return null
  const { depth, replyStack } = chainOfRow(row)
  const ids = replyStack.map(({ entityId }) => entityId)
  const entities = await db.entity.findMany({ where: { id: { in: ids } }, select: { id: true, name: true } })
  const names = new Map(entities.map(({ id, name }) => [id, name]))
  const waiters = replyStack.map(({ entityId: id, spaceId }) => ({ id, name: names.get(id) ?? id, spaceId }))
  return { turn: depth, waiters: waiters.reverse() }
}

/**
 * Returns the chain section of the instructions: the possible ends of the agent's turn, the waiting agents, and the
 * agents to which it may delegate. Contains names but no reasons.
 */
export function chainSection(
  space: ChainSpace | undefined,
  { agent, chain, spaceId }: { agent: ChainAgent; chain: ChainScene | null; spaceId: string | null },
): string {
  if (space === undefined) return ''
  const others = space.members.filter(({ id, kind }) => kind === 'AGENT' && id !== agent.id)
  const waiting = (chain?.waiters ?? []).map(
    (waiter) =>
      `${JSON.stringify(oneLine(waiter.name))} (id: ${waiter.id}${waiter.spaceId === spaceId ? '' : ', in another space'})`,
  )
  return [
    `YOUR TURN IN ${JSON.stringify(oneLine(space.name))}:`,
    '- In a chain one agent acts at a time, and it is your turn. You can respond, delegate or skip:',
    '- respond: post a message. Call mentionAgent as well if another agent should continue after you; with expectReply you are called back when it is done. Without a mention, the waiting agent is called back; if none waits, the conversation pauses.',
    '- delegate: pass this on to the agent that should handle it, before you have posted anything. Nothing of you shows.',
    '- skip: stay silent, because you have nothing to add.',
    ...(agent.toolset === 'SPACE_TOOLS' ? [NO_WAIT] : []),
    ...(waiting.length === 0
      ? []
      : [`- Waiting for a reply, in the order in which they are called back: ${waiting.join(', then ')}`]),
    ...(others.length === 0 ? ['- There is no other agent here.'] : ['- The other agents here:']),
    ...agentLines(others),
  ].join('\n')
}

const OTHERS_CHARACTERS = 20_000

/** Returns a line with the id, name and description of each agent that may be mentioned or delegated to. */
export function agentLines(agents: ChainSpace['members']): string[] {
  const lines = agents.map(
    ({ id, name, description }) =>
      `- ${JSON.stringify(oneLine(name))} (id: ${id})${description ? `: ${JSON.stringify(description)}` : ''}`,
  )
  return firstWithin(lines, OTHERS_CHARACTERS, (line) => line)
}

/** The maximum length of another agent's reason or question, in characters. */
const LONGEST_REASON = 2000

const NO_WAIT =
  '- An agent that you mention here, by mentionAgent or in a message, wakes when your run has ended: do not wait for it. To get its reply, call mentionAgent with expectReply.'

export const TURNS_ELSEWHERE =
  'one agent of a chain acts at a time. An agent that you mention in a message there, or by mentionAgent right after it, wakes when your run has ended: do not wait for it. To get its reply, call mentionAgent with expectReply: you are called back.'

/**
 * Returns the line of the user message about how this agent got its turn: which agent mentioned it, delegated to it or
 * called it back, and why. Text by the other agent is quoted. Returns null if no agent did.
 */
export function wokenByLine(wokenBy: unknown): string | null {
  const by = wokenBy as WokenBy | null
  if (by === null || by === undefined) return null
  const name = nameIn(by.agentName)
  if (by.type === 'mention') {
    return `You were mentioned by ${name}${quoted(by.reason)}${by.expectReply ? ' (It waits for your reply.)' : ''}`
  }
  if (by.type === 'delegation') return `Delegated to you by ${name}${quoted(by.reason)}`
  const asked = by.askedFor === null ? '' : ` You had asked: ${JSON.stringify(cutSaying(by.askedFor, LONGEST_REASON))}.`
  return `You are called back.${asked} ${name} ${ENDED[by.ended]}${quoted(by.reason)}`
}

const quoted = (reason: string | null) =>
  reason === null ? '' : `: ${JSON.stringify(cutSaying(reason, LONGEST_REASON))}`

const ENDED: Record<TurnOutcome, string> = {
  responded: 'has responded',
  skipped: 'skipped: it posted nothing here',
  failed: 'failed before it was done, and counts as skipped',
  stopped: 'was stopped before it was done, and counts as skipped',
  unreachable: 'could not be reached, and counts as skipped',
}

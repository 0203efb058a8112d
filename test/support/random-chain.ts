import fc from 'fast-check'
import { expect } from 'vitest'
import type { PrismaClient } from '../../src/generated/prisma/client.ts'
import type { WokenBy } from '../../src/rules/chain.ts'
import { chainOfRow } from '../../src/stores/chain-store.ts'
import type { Player } from './chain-room.ts'
import type { ModelServer } from './model-server.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { delegates, enter, mentions, say, skips } from './turns.ts'

/** The action of an agent in its turn, and the target of the action. */
export interface Decision {
  does: 'respond' | 'mention' | 'ask' | 'ask without a word' | 'delegate' | 'skip' | 'nothing' | 'fail' | 'be stopped'
  target: number
}

export interface RandomChain {
  persistent: boolean[]
  decisions: Decision[]
}

const does = fc.oneof(
  { weight: 6, arbitrary: fc.constant('ask' as const) },
  { weight: 2, arbitrary: fc.constant('mention' as const) },
  { weight: 2, arbitrary: fc.constant('delegate' as const) },
  { weight: 2, arbitrary: fc.constantFrom('respond' as const, 'skip' as const) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      'ask without a word' as const,
      'nothing' as const,
      'fail' as const,
      'be stopped' as const,
    ),
  },
)

/** Three to five agents of both memory modes, with the actions of each turn. After these, the agents answer. */
export const randomChain: fc.Arbitrary<RandomChain> = fc.record({
  persistent: fc.array(fc.boolean(), { minLength: 3, maxLength: 5 }),
  decisions: fc.array(fc.record({ does, target: fc.nat(4) }), { minLength: 6, maxLength: 12 }),
})

interface Play {
  spaceId: string
  players: Player[]
  decisions: Decision[]
  /** Stops the agent's run, which hangs. */
  stop(agentId: string): void
}

/** Scripts the agents. If another worker resumes a run, the run repeats its actions. */
export function playAtRandom(models: ModelServer, { spaceId, players, decisions, stop }: Play): void {
  const waiting = [...decisions]
  const made = new Map<string, Decision>()
  models.script((request) => {
    const self = players.findIndex(({ name }) => request.instructions.startsWith(`You are ${name},`))
    const player = players[self]
    if (player === undefined) return undefined
    if (request.step > 0) return [{ text: 'Done.' }]
    const key = runOf(request)
    const decision = made.get(key) ?? waiting.shift() ?? { does: 'respond', target: 0 }
    made.set(key, decision)
    const target = players[(self + 1 + (decision.target % players.length)) % players.length] ?? player
    if (decision.does === 'be stopped') stop(player.id)
    return actionsOf(decision.does, { id: spaceId }, target)
  })
}

/** Identifies the run of a stateless agent by its id, and a cycle by its inbox. */
function runOf({ instructions, messages }: ModelRequest): string {
  return /run_\w+(?= \(this run\))/.exec(instructions)?.[0] ?? messages.at(-1)?.text ?? ''
}

function actionsOf(does: Decision['does'], space: { id: string }, target: Player): ModelAction[] {
  switch (does) {
    case 'respond':
      return [enter(space), say('This is it.')]
    case 'mention':
      return [enter(space), say('Your turn.'), mentions(target, 'go on')]
    case 'ask':
      return [enter(space), say('I need you.'), mentions(target, 'I need it', true)]
    case 'ask without a word':
      return [enter(space), mentions(target, 'I need it', true)]
    case 'delegate':
      return [enter(space), delegates(target, 'yours')]
    case 'skip':
      return [skips('not mine')]
    case 'nothing':
      return [{ text: 'I leave it.' }]
    case 'fail':
      return [{ error: 'No such model.', status: 400 }]
    case 'be stopped':
      return [{ hang: true }]
  }
}

interface Woken {
  agentId: string
  messageId: string | null
  wokenBy: WokenBy | null
}

/** Checks the invariants of every chain of a space after the chain has ended. */
export async function expectChainsAtRest(prisma: PrismaClient, spaceId: string, agentIds: string[]): Promise<void> {
  const runs = await prisma.run.findMany({ where: { agentId: { in: agentIds } } })
  expect(runs.filter(({ status }) => ['QUEUED', 'RUNNING', 'WAITING_TOOL'].includes(status))).toEqual([])
  for (const row of await prisma.chain.findMany({ where: { spaceId } })) {
    const chain = chainOfRow(row)
    expect(chain).toMatchObject({ holderId: null, holderRunId: null, replyStack: [] })
    expect(chain.depth).toBeLessThanOrEqual(10)
    const woken = await wokenIn(prisma, chain.id)
    expect(woken.length).toBe(chain.depth)
    expectOncePerMessage(woken)
    await expectCallBacks(prisma, { id: chain.id, isCut: chain.depth === 10, woken })
  }
}

/**
 * Returns every wake-up of a chain: runs of stateless agents, and events of persistent agents. A skip leaves no run of its
 * cycle.
 */
async function wokenIn(prisma: PrismaClient, chainId: string): Promise<Woken[]> {
  const runs = await prisma.run.findMany({ where: { chainId, triggerType: { not: 'INBOX' } } })
  const events = await prisma.inboxEvent.findMany({ where: { chainId } })
  return [
    ...runs.map(({ agentId, triggerMessageId, wokenBy }) => ({
      agentId,
      messageId: triggerMessageId,
      wokenBy: wokenBy as WokenBy | null,
    })),
    ...events.map(({ agentId, messageId, wokenBy }) => ({ agentId, messageId, wokenBy: wokenBy as WokenBy | null })),
  ]
}

function expectOncePerMessage(woken: Woken[]): void {
  const byMessage = woken.filter(({ messageId, wokenBy }) => messageId !== null && wokenBy?.type !== 'callback')
  const keys = byMessage.map(({ agentId, messageId }) => `${agentId} ${messageId}`)
  expect(new Set(keys).size).toBe(keys.length)
}

/**
 * If an agent has mentioned another with `expectReply` in a completed run, it must be called back exactly once, or at most once
 * if the chain was cut short.
 */
async function expectCallBacks(
  prisma: PrismaClient,
  { id, isCut, woken }: { id: string; isCut: boolean; woken: Woken[] },
): Promise<void> {
  const asking = await prisma.$queryRaw<{ agentId: string }[]>`
    SELECT c."agentId" FROM "ToolCall" c JOIN "Run" r ON r.id = c."runId"
    WHERE r."chainId" = ${id} AND r.status = 'COMPLETED' AND c."toolName" = 'mentionAgent' AND c.status = 'DONE'
      AND c.output->>'expectReply' = 'true'`
  const count = (rows: { agentId: string }[], agentId: string) => rows.filter((row) => row.agentId === agentId).length
  const calls = woken.filter(({ wokenBy }) => wokenBy?.type === 'callback')
  for (const { agentId } of [...asking, ...calls]) {
    if (isCut) expect(count(calls, agentId)).toBeLessThanOrEqual(count(asking, agentId))
    else expect(count(calls, agentId)).toBe(count(asking, agentId))
  }
}

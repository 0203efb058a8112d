import { sleep } from '../lib/async.ts'
import { prismaOf, type World } from './world.ts'

/** How long nothing may happen before the replay counts as unable to follow. */
const STALL_MS = 1200
const LONGEST_WAIT_MS = 30_000
const POLL_MS = 4
/** Runs that may be claimed this soon count as moving. */
const SOON_MS = 50

/** Waits until a part of the engine waits at a gate, and releases it. Returns `otherwise` if none arrives at the gate; null if one did. */
export async function passGate(world: World, gate: () => string, otherwise: string): Promise<string | null> {
  return (await waitFor(world, async () => world.gates.release(gate()))) ? null : otherwise
}

/** Waits for a condition as long as the engine is working. */
export async function waitFor(world: World, isSo: () => Promise<boolean>): Promise<boolean> {
  const startedAt = performance.now()
  let quietSince: number | null = null
  for (;;) {
    if (await isSo()) return true
    const at = performance.now()
    quietSince = (await isQuiet(world)) ? (quietSince ?? at) : null
    if (quietSince !== null && at - quietSince > STALL_MS) return false
    if (at - startedAt > LONGEST_WAIT_MS) return false
    await sleep(POLL_MS)
  }
}

/** Waits until nothing moves. */
export async function waitUntilQuiet(world: World): Promise<void> {
  const until = performance.now() + LONGEST_WAIT_MS
  while (!(await isQuiet(world)) && performance.now() < until) await sleep(POLL_MS)
}

/** Whether every run has ended, waits, or is held at a gate. */
async function isQuiet(world: World): Promise<boolean> {
  const { gates, isFree, thinking } = world
  const prisma = prismaOf(world)
  const claimable = {
    status: { in: ['QUEUED' as const, 'WAITING_TOOL' as const] },
    claimableAt: { lte: new Date(Date.now() + SOON_MS) },
  }
  const waiting = { doneAt: null, runId: null, quiet: false, waitsUntil: null, retryAt: null }
  const [active, events, approved] = await Promise.all([
    prisma.run.findMany({
      where: { OR: [{ status: 'RUNNING' }, claimable] },
      select: { id: true, status: true, agentId: true },
    }),
    prisma.inboxEvent.findMany({ where: waiting, select: { agentId: true } }),
    prisma.toolCall.findMany({ where: { carryAt: { not: null }, settledAt: null }, select: { runId: true } }),
  ])
  if (approved.some(({ runId }) => !gates.isHeld(runId))) return false
  const running = active.filter(({ status }) => status === 'RUNNING').map(({ agentId }) => agentId)
  for (const { id, status, agentId } of active) {
    const isStill =
      gates.isHeld(id) ||
      (status === 'QUEUED' && (await isFull(world, agentId, running))) ||
      (status === 'RUNNING' && (await waitsForReply(world, id)))
    if (!isStill) return false
  }
  const cycling = new Set(active.map(({ agentId }) => agentId))
  return events.every(({ agentId }) => cycling.has(agentId) || !(isFree || thinking.has(agentId)))
}

/** Whether the agent executes as many runs as it may. */
async function isFull(world: World, agentId: string, running: readonly string[]): Promise<boolean> {
  const count = running.filter((one) => one === agentId).length
  if (count === 0) return false
  const agent = await prismaOf(world).agent.findUnique({ where: { id: agentId }, select: { maxConcurrentRuns: true } })
  return count >= (agent?.maxConcurrentRuns ?? 1)
}

/** Whether a call of the run waits for a message. */
async function waitsForReply(world: World, runId: string): Promise<boolean> {
  const where = { runId, status: 'WAITING' as const, approvalState: null, execution: null }
  return (await prismaOf(world).toolCall.count({ where })) > 0
}

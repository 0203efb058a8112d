import type { Inbox } from '../agents/inbox.ts'
import type { Limits } from '../config.ts'
import type { EntityKind, Mind, OutcomeKind, Prisma, Routing, Run } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { cut, oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Runs } from '../runs/runs.ts'
import { type Message, textOf } from '../spaces/message.ts'
import type { Routed } from '../spaces/posting.ts'
import { admin } from './admin.ts'
import { broadcast } from './broadcast.ts'
import { mentionChain } from './mention-chain.ts'
import type { AgentMember, Room, Route, RoutingDecision } from './route.ts'

const ROUTES: Record<Routing, Route> = { BROADCAST: broadcast, ADMIN: admin, MENTION_CHAIN: mentionChain }

/** Carries out what routing decides. The one impure file of this folder. */
export interface Dispatch {
  /** Within the transaction that made the message whole: runs, inbox events, outcomes and jobs. */
  route(tx: Tx, message: Message): Promise<Routed>
}

interface MemberRow {
  id: string
  name: string
  kind: EntityKind
  mind: Mind | null
  maxConcurrentRuns: number | null
  spaceName: string
  routing: Routing
  adminAgentId: string | null
  lastPickedId: string | null
}

/** The space, its members in join order, and the sender, who may have left since. */
interface Scene {
  spaceName: string
  sender: { name: string; kind: EntityKind }
  room: Room
}

interface Verdict {
  agentId: string
  kind: OutcomeKind
  reason: string
  runId: string | null
}

export function createDispatch(platform: Platform, parts: { runs: Runs; inbox: Inbox }): Dispatch {
  const { limits } = platform.config
  const { runs, inbox } = parts

  return {
    async route(tx, message) {
      const scene = await loadScene(tx, message)
      const decision = ROUTES[scene.room.routing]({ ...message, senderKind: scene.sender.kind }, scene.room)
      if (decision.picked !== null) {
        await tx.space.update({ where: { id: message.spaceId }, data: { lastPickedId: decision.picked } })
      }
      const allowed = await allowance(tx, message, limits)
      const woken = decision.wakes.slice(0, allowed.count).map(({ agent }) => agent)
      const stateless = woken.filter((agent) => agent.mind === 'STATELESS')
      const persistent = woken.filter((agent) => agent.mind === 'PERSISTENT')
      const started = await runs.start(
        tx,
        stateless.map((agent) => runFor(agent, message, scene)),
      )
      const arrived = await inbox.deliver(
        tx,
        persistent.map((agent) => inboxEventFor(agent, message, scene)),
      )
      const verdicts = verdictsOf(decision, allowed, started.runs, arrived.agentIds)
      await writeOutcomes(tx, message.id, verdicts)
      return {
        runs: started.runs,
        async afterCommit() {
          await started.afterCommit()
          await arrived.afterCommit()
        },
      }
    },
  }
}

async function loadScene(tx: Tx, message: Message): Promise<Scene> {
  const rows = await tx.$queryRaw<MemberRow[]>`
    SELECT e.id, e.name, e.kind, a.mind, a."maxConcurrentRuns", s.name AS "spaceName", s.routing, s."adminAgentId", s."lastPickedId"
    FROM "Space" s
    JOIN "Membership" m ON m."spaceId" = s.id
    JOIN "Entity" e ON e.id = m."entityId"
    LEFT JOIN "Agent" a ON a.id = e.id
    WHERE s.id = ${message.spaceId}
    ORDER BY m."joinedAt", e.id`
  const agents = rows.flatMap((row): AgentMember[] =>
    row.mind === null || row.maxConcurrentRuns === null
      ? []
      : [{ id: row.id, name: row.name, mind: row.mind, maxConcurrentRuns: row.maxConcurrentRuns }],
  )
  if (message.mentionedAgentId !== null && !agents.some((agent) => agent.id === message.mentionedAgentId)) {
    throw new BadInputError('Only an agent that is a member of the space can be mentioned.', 'input.mentionedAgentId')
  }
  const member = rows.find((row) => row.id === message.senderId)
  const sender = member ?? (await tx.entity.findUniqueOrThrow({ where: { id: message.senderId } }))
  const [space] = rows
  return {
    spaceName: space?.spaceName ?? '',
    sender,
    room: {
      routing: space?.routing ?? 'BROADCAST',
      adminAgentId: space?.adminAgentId ?? null,
      lastPickedId: space?.lastPickedId ?? null,
      agents,
    },
  }
}

interface Allowance {
  /** How many more runs and cycles the message's root may set off. */
  count: number
  reason: string
}

/** Loop protection by depth and by runs per root. Messages of one root are routed one at a time, so that the count is exact. */
async function allowance(tx: Tx, message: Message, { maxChainDepth, maxRootRuns }: Limits): Promise<Allowance> {
  if (message.depth === 0) return { count: Number.POSITIVE_INFINITY, reason: '' }
  if (message.depth >= maxChainDepth) {
    return { count: 0, reason: `The chain of triggers has reached its greatest depth, ${maxChainDepth}.` }
  }
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${message.rootId}, 0))`
  const [row] = await tx.$queryRaw<{ count: number }[]>`
    SELECT ((SELECT count(*) FROM "Run" WHERE "rootId" = ${message.rootId}) +
      (SELECT count(*) FROM "InboxEvent" WHERE "rootId" = ${message.rootId} AND "doneAt" IS NULL))::int AS count`
  return {
    count: Math.max(0, maxRootRuns - (row?.count ?? 0)),
    reason: `What began the chain has set off ${maxRootRuns} runs, the most it may.`,
  }
}

function aboutOf(message: Message, scene: Scene): string {
  const text = cut(oneLine(textOf(message.parts)), 120)
  return `${oneLine(scene.sender.name)} in "${oneLine(scene.spaceName)}"${text === '' ? '' : `: "${text}"`}`
}

function runFor(agent: AgentMember, message: Message, scene: Scene) {
  return {
    agent,
    dedupKey: `${agent.id}:${message.id}`,
    triggerType: 'SPACE_MESSAGE' as const,
    triggerSpaceId: message.spaceId,
    triggerMessageId: message.id,
    triggerSenderId: message.senderId,
    triggerSummary: aboutOf(message, scene),
    activeSpaceId: message.spaceId,
    enteredSeq: message.seq,
    depth: message.depth,
    rootId: message.rootId,
    parentRunId: message.runId,
  }
}

function inboxEventFor(agent: AgentMember, message: Message, scene: Scene) {
  return {
    agentId: agent.id,
    type: 'SPACE_MESSAGE' as const,
    dedupKey: message.id,
    spaceId: message.spaceId,
    messageId: message.id,
    senderId: message.senderId,
    payload: {
      spaceId: message.spaceId,
      spaceName: scene.spaceName,
      senderId: message.senderId,
      senderName: scene.sender.name,
      senderKind: scene.sender.kind,
      content: textOf(message.parts),
    },
    rootId: message.rootId,
    depth: message.depth,
    parentRunId: message.runId,
  }
}

function verdictsOf(decision: RoutingDecision, allowed: Allowance, runs: Run[], inboxes: Set<string>): Verdict[] {
  const wakes = decision.wakes.map(({ agent, reason }, index): Verdict => {
    const base = { agentId: agent.id, runId: null }
    if (index >= allowed.count) return { ...base, kind: 'LOOP_LIMIT', reason: allowed.reason }
    const run = runs.find((candidate) => candidate.agentId === agent.id)
    if (run !== undefined) return { ...base, kind: 'RUN', reason, runId: run.id }
    if (inboxes.has(agent.id)) return { ...base, kind: 'INBOX', reason }
    return { ...base, kind: 'DUPLICATE', reason: 'This message had triggered the agent before.' }
  })
  const sleeps = decision.sleeps.map(({ agent, kind, reason }) => ({ agentId: agent.id, kind, reason, runId: null }))
  return [...wakes, ...sleeps]
}

async function writeOutcomes(tx: Tx, messageId: string, verdicts: Verdict[]): Promise<void> {
  if (verdicts.length === 0) return
  const data: Prisma.OutcomeCreateManyInput[] = verdicts.map((verdict) => ({ messageId, ...verdict }))
  await tx.outcome.createMany({ data, skipDuplicates: true })
}

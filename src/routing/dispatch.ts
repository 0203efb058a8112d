import type { Inbox } from '../agents/inbox.ts'
import type { Limits } from '../config.ts'
import type { EntityKind, Mind, OutcomeKind, Routing, Run } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { Runs } from '../runs/runs.ts'
import { type Message, textOf } from '../spaces/message.ts'
import type { PostingHooks } from '../spaces/posting.ts'
import { admin } from './admin.ts'
import { broadcast } from './broadcast.ts'
import { type Allowance, allowance } from './loop-limits.ts'
import { mentionChain } from './mention-chain.ts'
import { inboxEventOf, type MessageTrigger, runOf } from './message-trigger.ts'
import { ANSWERED, answerWaits } from './reply-waits.ts'
import type { AgentMember, Room, Route, RoutingDecision } from './route.ts'

const ROUTES: Record<Routing, Route> = { BROADCAST: broadcast, ADMIN: admin, MENTION_CHAIN: mentionChain }

/** Carries out what a space's routing decides of a message. */
export interface Dispatch extends PostingHooks<Run> {}

interface MemberRow {
  id: string
  name: string
  kind: EntityKind
  mind: Mind | null
  spaceName: string
  lastSeq: number
  routing: Routing
  adminAgentId: string | null
  joinedAt: Date
  lastPickedId: string | null
  lastPickedJoinedAt: Date | null
}

/** The space, its members in join order, and the sender, who may have left since. */
interface Scene {
  spaceName: string
  /** The last message there: later than this one, where that was written for a while. */
  lastSeq: number
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
  const { db } = platform
  const { limits } = platform.config
  const { runs, inbox } = parts

  return {
    async route(tx, message) {
      const scene = await loadScene(tx, message)
      const content = await loadReadableText(tx, message.parts)
      const answered = await answerWaits(tx, { message, sender: scene.sender, content })
      const decision = decisionOf(message, scene, answered)
      if (decision.picked !== null) await takeTurn(tx, message.spaceId, decision.picked)
      const allowed = decision.wakes.length === 0 ? UNLIMITED : await allowanceOf(tx, message, limits)
      const woken = decision.wakes.slice(0, allowed.count).map(({ agent }) => agent)
      const chainId = scene.room.routing === 'MENTION_CHAIN' && woken.length > 0 ? newId('chn') : null
      const trigger = triggerOf(message, scene, content)
      const lineage = { rootId: message.rootId, depth: message.depth, parentRunId: message.runId, chainId }
      const stateless = woken.filter((agent) => agent.mind === 'STATELESS')
      const persistent = woken.filter((agent) => agent.mind === 'PERSISTENT')
      const started = await runs.start(
        tx,
        stateless.map((agent) => runOf(agent, trigger, { ...lineage, dedupKey: `${agent.id}:${message.id}` })),
      )
      const arrived = await inbox.deliver(
        tx,
        persistent.map((agent) => inboxEventOf(agent, trigger, { ...lineage, dedupKey: message.id })),
      )
      const [first] = woken
      if (chainId !== null && first !== undefined) await beginChain(tx, chainId, message, first.id, started.runs[0])
      const verdicts = verdictsOf(decision, allowed, started.runs, arrived.agentIds)
      await writeOutcomes(tx, message.id, [...verdicts, ...answeredOf(scene.room, answered)])
      return {
        runs: started.runs,
        async afterCommit() {
          await started.afterCommit()
          await arrived.afterCommit()
        },
      }
    },
    async startedBy(messageId) {
      const outcomes = await db.prisma.outcome.findMany({ where: { messageId, kind: { in: ['RUN', 'SKIPPED'] } } })
      const ids = outcomes.flatMap(({ runId }) => (runId === null ? [] : [runId]))
      return db.prisma.run.findMany({ where: { id: { in: ids } }, orderBy: { id: 'asc' } })
    },
  }
}

/** What the space's routing says of whoever was not waiting for this message. */
function decisionOf(message: Message, { sender, room }: Scene, answered: Map<string, string>): RoutingDecision {
  const { wakes, sleeps, picked } = ROUTES[room.routing]({ ...message, senderKind: sender.kind }, room)
  const others = ({ agent }: { agent: AgentMember }) => !answered.has(agent.id)
  const isAnswered = picked !== null && answered.has(picked.id)
  return { wakes: wakes.filter(others), sleeps: sleeps.filter(others), picked: isAnswered ? null : picked }
}

async function loadScene(tx: Tx, message: Message): Promise<Scene> {
  const rows = await tx.$queryRaw<MemberRow[]>`
    SELECT e.id, e.name, e.kind, a.mind, s.name AS "spaceName", s."lastSeq", s.routing, s."adminAgentId", m."joinedAt",
      s."lastPickedId", s."lastPickedJoinedAt"
    FROM "Space" s
    JOIN "Membership" m ON m."spaceId" = s.id
    JOIN "Entity" e ON e.id = m."entityId"
    LEFT JOIN "Agent" a ON a.id = e.id
    WHERE s.id = ${message.spaceId}
    ORDER BY m."joinedAt", e.id`
  const agents = rows.flatMap((row): AgentMember[] =>
    row.mind === null ? [] : [{ ...row, mind: row.mind, joinedAt: row.joinedAt.getTime() }],
  )
  if (message.mentionedAgentId !== null && !agents.some((agent) => agent.id === message.mentionedAgentId)) {
    throw new BadInputError('Only an agent that is a member of the space can be mentioned.', 'input.mentionedAgentId')
  }
  const member = rows.find((row) => row.id === message.senderId)
  const sender = member ?? (await tx.entity.findUniqueOrThrow({ where: { id: message.senderId } }))
  const [space] = rows
  return {
    spaceName: space?.spaceName ?? '',
    lastSeq: space?.lastSeq ?? message.seq,
    sender,
    room: {
      routing: space?.routing ?? 'BROADCAST',
      adminAgentId: space?.adminAgentId ?? null,
      lastPicked: placeOf(space),
      agents,
    },
  }
}

function placeOf(space: MemberRow | undefined): Room['lastPicked'] {
  if (space?.lastPickedId == null || space.lastPickedJoinedAt === null) return null
  return { id: space.lastPickedId, joinedAt: space.lastPickedJoinedAt.getTime() }
}

/** The space's row is locked by the message's counter: turns are taken one at a time. */
async function takeTurn(tx: Tx, spaceId: string, { id, joinedAt }: AgentMember): Promise<void> {
  await tx.space.update({
    where: { id: spaceId },
    data: { lastPickedId: id, lastPickedJoinedAt: new Date(joinedAt) },
  })
}

const UNLIMITED: Allowance = { count: Number.POSITIVE_INFINITY, reason: '' }

/** A human's message begins anew; what comes of it counts. */
async function allowanceOf(tx: Tx, message: Message, limits: Limits): Promise<Allowance> {
  return message.depth === 0 ? UNLIMITED : allowance(tx, message, limits)
}

function triggerOf(message: Message, scene: Scene, content: string): MessageTrigger {
  const { id: messageId, spaceId, senderId, parts, mentionedAgentId } = message
  const { spaceName, lastSeq: seq, room } = scene
  const space = { id: spaceId, name: spaceName }
  const mentioned = room.agents.find((agent) => agent.id === mentionedAgentId) ?? null
  const sender = { ...scene.sender, id: senderId }
  return { space, seq, messageId, text: textOf(parts) || content, content, sender, mentioned }
}

/** Under MENTION_CHAIN routing the agent that a human's message wakes begins a chain. */
async function beginChain(tx: Tx, chainId: string, { spaceId }: Message, holderId: string, run: Run | undefined) {
  await tx.chain.create({ data: { id: chainId, spaceId, depth: 1, holderId, holderRunId: run?.id ?? null } })
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

function answeredOf({ agents }: Room, answered: Map<string, string>): Verdict[] {
  const waited = agents.filter(({ id }) => answered.has(id))
  return waited.map(({ id }) => ({ agentId: id, kind: 'ANSWERED', reason: ANSWERED, runId: answered.get(id) ?? null }))
}

async function writeOutcomes(tx: Tx, messageId: string, verdicts: Verdict[]): Promise<void> {
  if (verdicts.length === 0) return
  await tx.$executeRaw`
    INSERT INTO "Outcome" ("messageId", "agentId", kind, reason, "runId")
    SELECT ${messageId}, v."agentId", v.kind::"OutcomeKind", v.reason, v."runId"
    FROM jsonb_to_recordset(${jsonbText(verdicts)}::jsonb) AS v("agentId" text, kind text, reason text, "runId" text)
    ON CONFLICT ("messageId", "agentId") DO UPDATE SET kind = excluded.kind, reason = excluded.reason, "runId" = excluded."runId"`
}

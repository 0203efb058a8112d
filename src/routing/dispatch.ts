import { arrived, type Inbox } from '../agents/inbox.ts'
import type { Limits } from '../config.ts'
import { type EntityKind, type OutcomeKind, Prisma, type Run } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { jsonbText } from '../lib/json.ts'
import { overBudget, WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import { type Changes, statementOf } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import { type Runs, runOfJson, started } from '../runs/runs.ts'
import { type Message, textOf } from '../spaces/message.ts'
import type { PostingHooks, Routed, RoutedMessage } from '../spaces/posting.ts'
import { readableText } from '../spaces/readable-text.ts'
import { type Allowance, allowance } from './loop-limits.ts'
import { inboxEventOf, type MessageTrigger, provenanceOfMessage, runOf } from './message-trigger.ts'
import { ANSWERED, answerWaits, isNoReply } from './reply-waits.ts'
import { createRooms, type KnownRoom, type Rooms } from './rooms.ts'
import type { AgentMember, RoutingDecision } from './route.ts'
import { ROUTES } from './routes.ts'

/** Applies the routing of a space to a message. */
export interface Dispatch extends PostingHooks<Run> {}

/** A message and the space that it is posted in. The sender may have left since. */
interface Scene {
  message: RoutedMessage
  /** All that agents read of the message. */
  content: string
  sender: { name: string; kind: EntityKind }
  room: KnownRoom
  /** By agent, the run whose wait the message answers. */
  answered: Map<string, string>
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
  const rooms = createRooms(platform)

  function routedOf(spaceId: string, { runs: rows, inboxes }: Came): Routed<Run> {
    const beside = spaceTopic(spaceId)
    const started = rows.map(runOfJson)
    return {
      runs: started,
      async afterCommit() {
        await Promise.all([
          runs.announce(started, beside),
          ...(inboxes.length === 0 ? [] : [inbox.announce(inboxes, beside)]),
        ])
      },
    }
  }

  return {
    async route(tx, message) {
      const scene = await loadScene(tx, rooms, message)
      const decision = decisionOf(scene)
      if (decision.picked !== null) await takeTurn(tx, message.spaceId, decision.picked)
      const allowed = decision.wakes.length === 0 ? UNLIMITED : await allowanceOf(tx, message, limits)
      const changes = { message: Prisma.sql`SELECT * FROM "Message" WHERE id = ${message.id}` }
      const [row] = await tx.$queryRaw<{ came: Came }[]>(
        statementOf({ ...changes, ...consequences(scene, decision, allowed) }, 'routed'),
      )
      if (row === undefined) throw new Error(`message ${message.id} to be routed does not exist`)
      return routedOf(message.spaceId, row.came)
    },
    async foresee(message) {
      const room = await rooms.known(message.spaceId)
      const sender = room?.members.get(message.senderId)
      if (room === null || sender === undefined || faultOfMention(message, room) !== null) return null
      const scene = { message, content: readableText(message.parts, []), sender, room, answered: NOBODY }
      const decision = decisionOf(scene)
      // Loop limits count the messages of agents one at a time, in a transaction.
      if (message.depth > 0 && decision.wakes.length > 0) return null
      return {
        version: room.version,
        isAsKnown: isAsKnown(scene),
        turn: decision.picked,
        changes: consequences(scene, decision, UNLIMITED),
        routedOf(came, version) {
          if (decision.picked !== null) Object.assign(room, { version, lastPicked: decision.picked })
          return routedOf(message.spaceId, came as Came)
        },
        refused: () => rooms.forget(message.spaceId),
      }
    },
    async startedBy(messageId) {
      const outcomes = await db.prisma.outcome.findMany({ where: { messageId, kind: { in: ['RUN', 'SKIPPED'] } } })
      const ids = outcomes.flatMap(({ runId }) => (runId === null ? [] : [runId]))
      return db.prisma.run.findMany({ where: { id: { in: ids } }, orderBy: { id: 'asc' } })
    },
  }
}

const NOBODY: Scene['answered'] = new Map()

/** Agents learn which agents are paused before they write, so a message that is already written is accepted. */
function faultOfMention(
  { mentionedAgentId: id, senderId }: RoutedMessage,
  { agents, members }: KnownRoom,
): string | null {
  if (id === null) return null
  const mentioned = agents.find((agent) => agent.id === id)
  if (mentioned === undefined) return 'Only an agent that is a member of the space can be mentioned.'
  const isByHuman = members.get(senderId)?.kind === 'HUMAN'
  return isByHuman && mentioned.paused === true ? 'This agent is paused: mention another agent, or none.' : null
}

/**
 * Checks what the version of a space does not cover: no open waits, unchanged names, the same
 * paused agents, no exhausted budget. Not needed if the space has no agents and a human posts.
 */
function isAsKnown({ message, sender, room: { agents } }: Scene): Prisma.Sql {
  if (agents.length === 0 && message.runId === null) return Prisma.sql`true`
  const mentioned = agents.find(({ id }) => id === message.mentionedAgentId)
  const named = [{ id: message.senderId, name: sender.name }, ...(mentioned === undefined ? [] : [mentioned])]
  const names = named.map(
    ({ id, name }) => Prisma.sql`EXISTS (SELECT 1 FROM "Entity" WHERE id = ${id} AND name = ${name})`,
  )
  const all = agents.map(({ id }) => id)
  const paused = agents.flatMap(({ id, paused }) => (paused === true ? [id] : []))
  return Prisma.sql`${isNoReply(message)} AND ${Prisma.join(names, ' AND ')} AND NOT EXISTS (
    SELECT 1 FROM "Agent" a WHERE a.id = ANY(${all}::text[])
      AND (a.paused <> (a.id = ANY(${paused}::text[])) OR ${overBudget({ ...message, agentId: Prisma.sql`a.id` })} IS NOT NULL))`
}

/** Applies the space's routing to the agents that were not waiting for this message. */
function decisionOf({ message, sender, room, answered }: Scene): RoutingDecision {
  const { wakes, sleeps, picked } = ROUTES[room.routing]({ ...message, senderKind: sender.kind }, room)
  const others = ({ agent }: { agent: AgentMember }) => !answered.has(agent.id)
  const isAnswered = picked !== null && answered.has(picked.id)
  return { wakes: wakes.filter(others), sleeps: sleeps.filter(others), picked: isAnswered ? null : picked }
}

async function loadScene(tx: Tx, rooms: Rooms, message: Message): Promise<Scene> {
  const room = await rooms.read(tx, message)
  if (room === null) throw new Error(`space ${message.spaceId} does not exist`)
  const fault = faultOfMention(message, room)
  if (fault !== null) throw new BadInputError(fault, 'input.mentionedAgentId')
  const member = room.members.get(message.senderId)
  const sender = member ?? (await tx.entity.findUniqueOrThrow({ where: { id: message.senderId } }))
  const content = await loadReadableText(tx, message.parts)
  const answered = await answerWaits(tx, { message, sender, content })
  return { message, content, sender, room, answered }
}

/** The message counter has locked the space's row, so turns are taken one at a time. */
async function takeTurn(tx: Tx, spaceId: string, { id, joinedAt }: AgentMember): Promise<void> {
  await tx.space.update({
    where: { id: spaceId },
    data: { lastPickedId: id, lastPickedJoinedAt: new Date(joinedAt) },
  })
}

const UNLIMITED: Allowance = { count: Number.POSITIVE_INFINITY, reason: '' }

/** A human's message starts a new root, whose runs are counted from here. */
async function allowanceOf(tx: Tx, message: Message, limits: Limits): Promise<Allowance> {
  return message.depth === 0 ? UNLIMITED : allowance(tx, message, limits)
}

function triggerOf({ message, content, sender, room }: Scene): MessageTrigger {
  const { id: messageId, spaceId, senderId, parts, mentionedAgentId } = message
  const space = { id: spaceId, name: room.spaceName }
  const mentioned = room.agents.find((agent) => agent.id === mentionedAgentId) ?? null
  const text = textOf(parts) || content
  // The sequence number is assigned by the statement that writes the row.
  const provenance = provenanceOfMessage(message, sender.kind)
  return { space, seq: 0, messageId, text, content, sender: { ...sender, id: senderId }, mentioned, provenance }
}

/** The effects of a message, as JSON beside its row. */
interface Came {
  runs: Run[]
  inboxes: string[]
}

/**
 * The sequence number of the space's last message; greater than the message's own if it was
 * streaming for a while.
 */
const LAST_SEQ = Prisma.sql`greatest(message.seq, (SELECT "lastSeq" FROM "Space" WHERE id = message."spaceId"))`

/** Runs, inbox events and outcomes of a message, as parts of a WITH that read from `message`. */
function consequences(scene: Scene, decision: RoutingDecision, allowed: Allowance): Changes {
  const { message, room } = scene
  const woken = decision.wakes.slice(0, allowed.count).map(({ agent }) => agent)
  const [first] = woken
  const chainId = room.routing === 'MENTION_CHAIN' && first !== undefined ? newId('chn') : null
  const trigger = triggerOf(scene)
  const lineage = { rootId: message.rootId, depth: message.depth, parentRunId: message.runId, chainId }
  const runs = woken
    .filter((agent) => agent.mind === 'STATELESS')
    .map((agent) => runOf(agent, trigger, { ...lineage, dedupKey: `${agent.id}:${message.id}` }))
  const events = woken
    .filter((agent) => agent.mind === 'PERSISTENT')
    .map((agent) => inboxEventOf(agent, trigger, { ...lineage, dedupKey: message.id }))
  const verdicts = [...verdictsOf(decision, allowed), ...answeredOf(scene)]
  return {
    runs: runs.length === 0 ? NONE : started(runs, { from: 'message', enteredSeq: LAST_SEQ }),
    arrived: events.length === 0 ? NONE : arrived(events, { from: 'message' }),
    ...(chainId === null || first === undefined ? {} : { chain: chainBegun(chainId, first.id) }),
    ...(verdicts.length === 0 ? {} : { outcomes: outcomesOf(verdicts) }),
    routed: Prisma.sql`SELECT message.*, jsonb_build_object('runs', ${runs.length === 0 ? NOTHING_CAME : RUNS_AS_JSON},
      'inboxes', ${events.length === 0 ? NOTHING_CAME : INBOXES_AS_JSON}) AS came FROM message`,
  }
}

/** An empty set of runs or inbox events: PostgreSQL drops it, and what is joined to it, from the plan. */
const NONE = Prisma.sql`SELECT NULL::text AS id, NULL::text AS "agentId" WHERE false`
const NOTHING_CAME = Prisma.sql`'[]'::jsonb`
const RUNS_AS_JSON = Prisma.sql`(SELECT coalesce(jsonb_agg(to_jsonb(runs) ORDER BY id), '[]') FROM runs)`
const INBOXES_AS_JSON = Prisma.sql`(SELECT coalesce(jsonb_agg("agentId"), '[]') FROM arrived)`

/** Under MENTION_CHAIN routing the agent that a human's message wakes begins a chain. */
function chainBegun(chainId: string, holderId: string): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "Chain" (id, "spaceId", depth, "holderId", "holderRunId")
    SELECT ${chainId}, "spaceId", 1, ${holderId}, (SELECT id FROM runs LIMIT 1) FROM message`
}

function verdictsOf(decision: RoutingDecision, allowed: Allowance): Verdict[] {
  const wakes = decision.wakes.map(({ agent, reason }, index): Verdict => {
    const base = { agentId: agent.id, runId: null }
    if (index >= allowed.count) return { ...base, kind: 'LOOP_LIMIT', reason: allowed.reason }
    if (agent.mind === 'STATELESS') return { ...base, kind: 'RUN', reason }
    return agent.over == null
      ? { ...base, kind: 'INBOX', reason }
      : { ...base, kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[agent.over] }
  })
  const sleeps = decision.sleeps.map(({ agent, kind, reason }) => ({ agentId: agent.id, kind, reason, runId: null }))
  return [...wakes, ...sleeps]
}

function answeredOf({ room: { agents }, answered }: Scene): Verdict[] {
  const waited = agents.filter(({ id }) => answered.has(id))
  return waited.map(({ id }) => ({ agentId: id, kind: 'ANSWERED', reason: ANSWERED, runId: answered.get(id) ?? null }))
}

const DUPLICATE = 'This message has already triggered the agent.'

/** An agent that was to be woken and has no new row had already been woken by this message. */
function outcomesOf(verdicts: Verdict[]): Prisma.Sql {
  const isRepeated = Prisma.sql`(v.kind = 'RUN' AND runs.id IS NULL OR v.kind = 'INBOX' AND arrived.id IS NULL)`
  return Prisma.sql`
    INSERT INTO "Outcome" ("messageId", "agentId", kind, reason, "runId")
    SELECT message.id, v."agentId", (CASE WHEN ${isRepeated} THEN 'DUPLICATE' ELSE v.kind END)::"OutcomeKind",
      CASE WHEN ${isRepeated} THEN ${DUPLICATE} ELSE v.reason END, coalesce(v."runId", runs.id)
    FROM message CROSS JOIN jsonb_to_recordset(${jsonbText(verdicts)}::jsonb) AS v("agentId" text, kind text, reason text, "runId" text)
    LEFT JOIN runs ON v.kind = 'RUN' AND runs."agentId" = v."agentId"
    LEFT JOIN arrived ON v.kind = 'INBOX' AND arrived."agentId" = v."agentId"
    ON CONFLICT ("messageId", "agentId") DO UPDATE
      SET kind = excluded.kind, reason = excluded.reason, "runId" = coalesce(excluded."runId", "Outcome"."runId") WHERE ${SAYS_MORE}`
}

/** A message that is routed after it was answered may already have woken an agent by a mention; keep that outcome. */
const SAYS_MORE = Prisma.sql`CASE WHEN "Outcome".kind IN ('RUN', 'INBOX') THEN excluded.kind = 'DUPLICATE'
  ELSE "Outcome".kind NOT IN ('SKIPPED', 'FAILED', 'DROPPED') AND excluded.kind <> 'NOT_ROUTED' END`

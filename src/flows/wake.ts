import { agentChannel, JOBS_CHANNEL } from '../broker/topics.ts'
import { marksOf, type Provenance, together, UNMARKED } from '../confidentiality/marks.ts'
import { type EntityKind, type Mind, Prisma, type Run } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { cut, type Json, type JsonObject, oneLine } from '../lib/json.ts'
import { overBudget } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { mentionPayload } from '../rules/mention.ts'
import { mentionsOf, messageOfRow, textOf } from '../rules/message.ts'
import { overBudgetOf, wayToWake } from '../rules/wake.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import { changeOf } from '../runs/run-changes.ts'
import { insertEvents, insertEventsSql, type NewInboxEvent, requeueFailed } from '../stores/inbox-store.ts'
import { insertRuns, insertRunsSql, type NewRun, runOfJson } from '../stores/run-store.ts'
import type { OutcomeChanges } from './outcome-changes.ts'

// Only this module wakes agents: for messages, chains, mentions, delegations, plans, services and retries. A
// stateless agent gets a run; a persistent agent gets an inbox event (rules/wake.ts).

/** The reason why an agent is woken. */
export type Trigger = MessageTrigger | PlanTrigger | ServiceTrigger

/**
 * An event in a space that wakes an agent: a message, or the end of a turn in a chain in which no message was posted.
 */
export interface MessageTrigger {
  type: 'SPACE_MESSAGE'
  space: { id: string; name: string }
  /** The number of the last message in the space that the agent sees when it is woken. */
  seq: number
  /** The id of the message; null if none was posted. */
  messageId: string | null
  /** The id of the message that started the thread of the event; null if the event is outside of threads. */
  threadRootId: string | null
  /** Whether the message is outside that thread. */
  isElsewhere?: boolean
  /** The text of the message. If the message only shows tool calls, this is the text of the calls. */
  text: string
  /** The full text of the message as agents read it, including the tool calls that it shows. */
  content: string
  sender: { id: string; name: string; kind: EntityKind }
  /** The mentioned humans and agents. */
  mentioned: readonly { id: string; name: string }[]
  /** The provenance of the message without its own space. The `label` can contain spaces that are not confidential. */
  provenance: Provenance
  /** Set if the agent has already read an earlier text of the message. */
  edited?: { messageId: string; sentAt: string }
}

export interface PlanTrigger {
  type: 'PLAN'
  planId: string | null
  /** The name of the plan. */
  name: string
  instruction: Json
  /** A one-line description. If absent, it is derived from the name and the instruction. */
  summary?: string
  /** The marks and requesters of the plan. */
  provenance: Provenance
}

export interface ServiceTrigger {
  type: 'SERVICE'
  /** The id of the service token or webhook; null for an admin. */
  serviceId: string | null
  /** The name of the service. */
  name: string
  payload: Json
  urgent?: boolean
  /** A one-line description. If absent, it is derived from the name and the payload. */
  summary?: string
  /**
   * The provenance. A service's payload has no source space and no requester, unless another agent has delegated the
   * payload.
   */
  provenance: Provenance
}

/** The position of a wake-up in the tree of runs that has one root. */
export interface Lineage {
  rootId: string
  depth: number
  parentRunId: string | null
  chainId?: string | null
  /** The chain turn or delegation that wakes the agent, as a `WokenBy`. */
  wokenBy?: Json
}

/** A wake-up of one or more agents. */
export interface WakeUp {
  trigger: Trigger
  /**
   * The deduplication key. A message wakes each agent only once; any other key can be used only once. If the key is
   * null, events are deduplicated by their root, and runs are not deduplicated.
   */
  key: { messageId: string } | { once: string } | null
  lineage: Lineage
  /** The provenance of the run that passes the turn, including that of its stated reason. */
  by?: Provenance
  /** The space in which the run works, if its trigger belongs to no space. */
  place?: Pick<NewRun, 'activeSpaceId' | 'enteredSeq'>
}

export interface WokenAgent {
  id: string
  mind: Mind
}

/** The rows that a wake-up has written: new runs, and the agents of new inbox events. */
export interface Woken {
  runs: Run[]
  inboxes: string[]
}

/** Wakes an agent in the caller's transaction. Returns null if the key has already woken the agent. */
export async function wake(tx: Tx, agent: WokenAgent, wakeUp: WakeUp): Promise<Woken | null> {
  if (wayToWake(agent) === 'INBOX') return deliver(tx, eventOf(agent, wakeUp))
  return startRun(tx, runOf(agent, wakeUp))
}

/** Wakes several agents, each with its own wake-up. Omits agents that were already woken with the same key. */
export async function wakeEach(tx: Tx, wakings: readonly { agent: WokenAgent; wakeUp: WakeUp }[]): Promise<Woken> {
  const by = (way: ReturnType<typeof wayToWake>) => wakings.filter(({ agent }) => wayToWake(agent) === way)
  const runs = await insertRuns(
    tx,
    by('RUN').map(({ agent, wakeUp }) => runOf(agent, wakeUp)),
  )
  const inboxes = await insertEvents(
    tx,
    by('INBOX').map(({ agent, wakeUp }) => eventOf(agent, wakeUp)),
  )
  return { runs, inboxes: [...inboxes] }
}

/** Adds an event to a persistent agent's inbox. Returns null if the agent has already received the event. */
export async function deliver(tx: Tx, event: NewInboxEvent): Promise<Woken | null> {
  const agentIds = await insertEvents(tx, [event])
  return agentIds.size === 0 ? null : { runs: [], inboxes: [...agentIds] }
}

/**
 * Writes a QUEUED run that repeats a part of an earlier run. All other runs are written by `wake`. Returns null if
 * the key was already used.
 */
export async function startRun(tx: Tx, run: NewRun): Promise<Woken | null> {
  const runs = await insertRuns(tx, [run])
  return runs.length === 0 ? null : { runs, inboxes: [] }
}

/**
 * Wakes the agent of a failed run again. Writes a new run with the same input or, after a think cycle, returns the
 * events of the cycle to the inbox. Returns null if this was already done.
 */
export async function wakeAgain(
  tx: Tx,
  run: Run,
  enteredSeq: number | null,
): Promise<(Woken & { messageIds: string[] }) | null> {
  if (run.triggerType !== 'INBOX') {
    const { triggerMessageId } = run
    const woken = await startRun(tx, repeatOf(run, enteredSeq))
    return woken && { ...woken, messageIds: triggerMessageId === null ? [] : [triggerMessageId] }
  }
  const events = await requeueFailed(tx, run.id)
  if (events.length === 0) return null
  return { runs: [], inboxes: [], messageIds: events.flatMap(({ messageId }) => messageId ?? []) }
}

/**
 * Returns an earlier wake-up with the same key, or null if there was none. `run` is null if the earlier wake-up wrote
 * an inbox event.
 */
export async function findWoken(
  tx: Tx,
  agent: WokenAgent,
  dedupKey: string | null,
): Promise<{ run: Run | null } | null> {
  if (dedupKey === null) return null
  const run = wayToWake(agent) === 'RUN' ? await tx.run.findUnique({ where: { dedupKey } }) : null
  const isKnown = run !== null || (await tx.inboxEvent.count({ where: { agentId: agent.id, dedupKey } })) > 0
  return isKnown ? { run } : null
}

/**
 * Wakes the workers, and publishes the new runs and events to viewers of the agents. Call this after the commit.
 * @param beside a topic to which the caller publishes at the same time. The signals keep their order relative to the
 * events of this topic.
 */
export async function publishWoken(
  { signals }: Pick<Platform, 'signals'>,
  { runs, inboxes }: Woken,
  beside?: string,
): Promise<void> {
  if (runs.length === 0 && inboxes.length === 0) return
  await Promise.all([
    signals.publish(JOBS_CHANNEL, {}, beside),
    ...runs.map((run) => signals.publish(...changeOf(run), beside)),
    ...inboxes.map((id) => signals.publish(agentChannel(id), { type: 'run-changed' }, beside)),
  ])
}

// Wake-ups that are part of a larger SQL statement.

/**
 * CTEs that wake agents for the CTE `message`, and an expression that returns the written rows. `wokenOf` reads the
 * value of this expression.
 */
export interface WakeSql {
  /** The CTE that inserts the new rows of "Run". */
  runs: Prisma.Sql
  /** The CTE that inserts the new rows of "InboxEvent". */
  arrived: Prisma.Sql
  woken: Prisma.Sql
}

/** @param enteredSeq the `seq` of the last message that the runs will read */
export function wakeSql(agents: readonly WokenAgent[], wakeUp: WakeUp, enteredSeq: Prisma.Sql): WakeSql {
  const runs = agents.filter((agent) => wayToWake(agent) === 'RUN').map((agent) => runOf(agent, wakeUp))
  const events = agents.filter((agent) => wayToWake(agent) === 'INBOX').map((agent) => eventOf(agent, wakeUp))
  return {
    runs: runs.length === 0 ? NONE : insertRunsSql(runs, { from: 'message', enteredSeq }),
    arrived: events.length === 0 ? NONE : insertEventsSql(events, { from: 'message' }),
    woken: Prisma.sql`jsonb_build_object('runs', ${runs.length === 0 ? NOBODY : RUNS_AS_JSON},
      'inboxes', ${events.length === 0 ? NOBODY : INBOXES_AS_JSON})`,
  }
}

/**
 * An empty set of runs or inbox events. PostgreSQL removes this set, and everything joined to it, from the query
 * plan.
 */
const NONE = Prisma.sql`SELECT NULL::text AS id, NULL::text AS "agentId" WHERE false`
const NOBODY = Prisma.sql`'[]'::jsonb`
const RUNS_AS_JSON = Prisma.sql`(SELECT coalesce(jsonb_agg(to_jsonb(runs) ORDER BY id), '[]') FROM runs)`
const INBOXES_AS_JSON = Prisma.sql`(SELECT coalesce(jsonb_agg("agentId"), '[]') FROM arrived)`

/** Converts the value of the expression `woken` to runs and inboxes. */
export function wokenOf({ runs, inboxes }: Woken): Woken {
  return { runs: runs.map(runOfJson), inboxes }
}

// The rows of runs and events.

function runOf(agent: { id: string }, { trigger, key, lineage, by, place }: WakeUp): NewRun {
  return {
    ...handedProvenance(trigger.provenance, by),
    agentId: agent.id,
    dedupKey: key === null ? null : 'once' in key ? key.once : `${agent.id}:${key.messageId}`,
    triggerType: trigger.type,
    triggerSummary: summaryOf(trigger),
    ...(trigger.type === 'SPACE_MESSAGE'
      ? {
          triggerSpaceId: trigger.space.id,
          triggerMessageId: trigger.messageId,
          threadRootId: trigger.threadRootId,
          triggerSenderId: trigger.sender.id,
          triggerPayload: mentionOf(trigger, agent),
          activeSpaceId: trigger.space.id,
          enteredSeq: trigger.seq,
        }
      : {
          triggerName: trigger.name,
          triggerServiceId: trigger.type === 'SERVICE' ? trigger.serviceId : null,
          triggerPayload: trigger.type === 'PLAN' ? { instruction: trigger.instruction } : trigger.payload,
          ...place,
        }),
    ...lineage,
  }
}

function eventOf(agent: { id: string }, { trigger, key, lineage, by }: WakeUp): NewInboxEvent {
  return {
    ...handedProvenance(trigger.provenance, by),
    agentId: agent.id,
    type: trigger.type,
    dedupKey: key === null ? lineage.rootId : 'once' in key ? key.once : key.messageId,
    payload: payloadOf(trigger, agent),
    ...(trigger.type === 'SPACE_MESSAGE'
      ? { spaceId: trigger.space.id, messageId: trigger.messageId, senderId: trigger.sender.id }
      : {}),
    ...(trigger.type === 'SERVICE' ? { urgent: trigger.urgent === true } : {}),
    ...lineage,
  }
}

/** The payload of an inbox event. */
export function payloadOf(trigger: Trigger, agent: { id: string }): JsonObject {
  if (trigger.type === 'PLAN') {
    return { planId: trigger.planId, name: trigger.name, instruction: trigger.instruction }
  }
  if (trigger.type === 'SERVICE') {
    return { serviceId: trigger.serviceId, name: trigger.name, payload: trigger.payload }
  }
  const { space, sender, content, edited, threadRootId, isElsewhere = false } = trigger
  const messageId = isElsewhere ? null : trigger.messageId
  const mention = mentionOf(trigger, agent)
  return {
    ...(edited === undefined ? {} : { change: 'EDITED', ...edited }),
    spaceId: space.id,
    spaceName: space.name,
    ...(threadRootId === null ? {} : { threadRootId, ...(messageId === null ? {} : { messageId }) }),
    senderId: sender.id,
    senderName: sender.name,
    senderKind: sender.kind,
    content,
    ...(mention === null ? {} : { mention }),
  }
}

const mentionOf = (trigger: MessageTrigger, agent: { id: string }) =>
  mentionPayload({ ...trigger, senderKind: trigger.sender.kind }, agent.id)

/**
 * Returns the provenance of a woken run. It combines the provenance of the trigger with that of the run that passed
 * the turn, if any.
 */
function handedProvenance(trigger: Provenance, by: Provenance | undefined): Provenance {
  if (by === undefined) return trigger
  return together([trigger, { places: [], label: marksOf(by), askers: by.askers }])
}

const LONGEST_SUBJECT = 120

/** Returns one line that describes the source and the subject of a trigger. */
function summaryOf(trigger: Trigger): string {
  if (trigger.type !== 'SPACE_MESSAGE' && trigger.summary !== undefined) return trigger.summary
  if (trigger.type === 'PLAN') return `The plan "${oneLine(trigger.name)}": "${subject(String(trigger.instruction))}"`
  if (trigger.type === 'SERVICE') {
    return `The service "${oneLine(trigger.name)}": ${subject(JSON.stringify(trigger.payload))}`
  }
  const { sender, space, text } = trigger
  const about = cut(oneLine(text), LONGEST_SUBJECT)
  return `${oneLine(sender.name)} in "${oneLine(space.name)}"${about === '' ? '' : `: "${about}"`}`
}

function subject(text: string): string {
  return cut(oneLine(cut(text, 10 * LONGEST_SUBJECT)), LONGEST_SUBJECT)
}

/**
 * Returns the new run for the retry of a failed run. The new run reads the messages of its space up to `enteredSeq`.
 */
function repeatOf(run: Run, enteredSeq: number | null): NewRun {
  const { agentId, triggerType, triggerName, triggerSpaceId, triggerMessageId, triggerSenderId, triggerServiceId } = run
  const { triggerSummary, triggerPayload, threadRootId, depth, rootId, parentRunId, chainId, wokenBy, askers } = run
  return {
    places: triggerSpaceId === null ? run.places : [triggerSpaceId],
    label: run.label,
    askers,
    agentId,
    dedupKey: `retry:${run.id}`,
    retryOfId: run.id,
    triggerType,
    triggerName,
    triggerSpaceId,
    triggerMessageId,
    threadRootId,
    triggerSenderId,
    triggerServiceId,
    triggerSummary,
    triggerPayload: triggerPayload as Json,
    wokenBy: wokenBy as Json,
    activeSpaceId: triggerSpaceId,
    enteredSeq,
    depth,
    rootId,
    parentRunId,
    chainId,
  }
}

// The facts that wake-ups need.

/** An agent that can be woken in a space. */
export interface Wakeable extends WokenAgent {
  name: string
  /** The exhausted budget, if there is one. */
  over: OverBudget | null
}

/** Reads an agent that is a member of the space. Returns null if the agent is not a member, or if it is paused. */
export async function agentMember(
  tx: Tx,
  { spaceId, agentId, rootId }: { spaceId: string; agentId: string; rootId: string },
): Promise<Wakeable | null> {
  const [agent] = await tx.$queryRaw<Wakeable[]>`
    SELECT e.id, e.name, a.mind, ${overBudget({ agentId: Prisma.sql`a.id`, spaceId, rootId })} AS over FROM "Membership" m
    JOIN "Entity" e ON e.id = m."entityId" JOIN "Agent" a ON a.id = e.id
    WHERE m."spaceId" = ${spaceId} AND m."entityId" = ${agentId} AND NOT a.paused`
  return agent ?? null
}

/**
 * Whether a budget prevents the wake-up of the agent. In that case, also records this as the message's outcome, if
 * there is a message.
 */
export async function isOverBudget(
  outcomes: OutcomeChanges,
  agent: Wakeable,
  messageId: string | null,
): Promise<boolean> {
  const over = overBudgetOf(agent)
  if (over === null) return false
  const reason = WHY_OVER_BUDGET[over]
  if (messageId !== null) await outcomes.set({ messageId, agentId: agent.id, kind: 'OVER_BUDGET', reason, runId: null })
  return true
}

interface TriggerSource {
  spaceId: string
  messageId: string | null
  /** The thread in which the agent works; if absent, the thread of the message. */
  threadRootId?: string | null
  senderId: string
  /**
   * The `seq` of the last message that the agent reads. If null, the agent reads up to the last message of the space.
   */
  seq: number | null
}

/**
 * Loads the trigger for an agent that is woken by a message, or by the end of a turn in which no message was posted.
 */
export async function loadMessageTrigger(
  tx: Tx,
  { spaceId, messageId, threadRootId: givenThreadId, senderId, seq }: TriggerSource,
): Promise<MessageTrigger> {
  const [row] = await tx.$queryRaw<
    { spaceName: string; lastSeq: number; name: string | null; kind: EntityKind | null }[]
  >`
    SELECT s.name AS "spaceName", s."lastSeq", e.name, e.kind FROM "Space" s LEFT JOIN "Entity" e ON e.id = ${senderId}
    WHERE s.id = ${spaceId}`
  const message = messageId === null ? null : await tx.message.findUnique({ where: { id: messageId } })
  const threadRootId = givenThreadId === undefined ? (message?.threadRootId ?? null) : givenThreadId
  const parts = message === null ? [] : messageOfRow(message).parts
  const content = await loadReadableText(tx, parts)
  const kind = row?.kind ?? 'AGENT'
  const mentionedIds = message === null ? [] : mentionsOf(message)
  const mentioned =
    mentionedIds.length === 0
      ? []
      : inOrderOf(mentionedIds, await tx.entity.findMany({ where: { id: { in: [...mentionedIds] } } }))
  return {
    type: 'SPACE_MESSAGE',
    mentioned: mentioned.filter((entity) => entity !== null),
    space: { id: spaceId, name: row?.spaceName ?? '' },
    seq: seq ?? row?.lastSeq ?? 0,
    messageId: message?.id ?? null,
    threadRootId,
    isElsewhere: message !== null && message.threadRootId !== threadRootId,
    text: textOf(parts) || content,
    content,
    sender: { id: senderId, name: row?.name ?? '', kind },
    provenance: provenanceOfMessage(message ?? { ...UNMARKED, spaceId, senderId }, kind),
  }
}

/**
 * Returns the provenance of a new message. The requester of a human's message is this human. The requesters of an
 * agent's message come from the message's row.
 */
export function provenanceOfMessage(
  { spaceId, senderId, ...marks }: Provenance & { spaceId: string; senderId: string },
  senderKind: EntityKind,
): Provenance {
  const askers = senderKind === 'HUMAN' ? [senderId] : marks.askers
  return { places: [spaceId], label: marksOf(marks), askers }
}

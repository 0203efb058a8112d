import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Prisma, Run } from '../generated/prisma/client.ts'
import { prefixOf } from '../lib/ids.ts'
import { cut, oneLine } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { type MessagePart, textOf } from '../rules/message.ts'
import { isAdmin } from '../rules/permissions.ts'
import { type Cause, MOST_WHY_STEPS, memoryLine, stepsOf, type WhyKind, type WhyStep } from '../rules/why.ts'

/** Explains why an object exists. */
export interface WhyReading {
  /**
   * Traces a message, tool call, run or memory back to the people, plans and services that caused it. Returns null if
   * the viewer may not see the object. Hides causes that the viewer may not see, and all causes that can only be
   * reached through hidden ones.
   */
  trace(viewer: Viewer, id: string): Promise<{ steps: WhyStep[] } | null>
}

/** A cause before its visibility is decided. */
interface Found {
  key: string
  kind: WhyKind
  text: string
  at: Date | null
  causes: string[]
  isVisible: boolean
  /** The causes that can be shown to a viewer who may not see this cause. */
  knownCauses?: string[]
}

const EXPLAINED = ['msg', 'tcl', 'run', 'mem']
const ERASED = 'erased:'
/** The maximum number of messages in a prompt that the trace follows. */
const MOST_MESSAGES_OF_STEP = 20
const MOST_MEMORIES_OF_STEP = 50
/** How many instruction texts are read into memory at a time. */
const TEXTS_AT_ONCE = 5

/** A step, with the content of its prompt. */
interface ShownStep {
  id: string
  runId: string
  agentId: string
  /** The id of the step that stores the instructions, which can be an earlier step. */
  instructionsOf: string | null
  messageIds: string[]
}

const SET_MEMORIES = ['set_memories', 'setMemories']
const SET_PLANS = ['set_plans', 'setPlans']

export function createWhyReading({ db }: Pick<Platform, 'db'>, { visibility }: { visibility: Visibility }): WhyReading {
  const { prisma } = db

  const messages: Reader = async (viewer, ids) => {
    const rows = await prisma.message.findMany({
      where: { id: { in: ids } },
      include: { space: { select: { name: true, forkSeq: true } } },
    })
    const seen = await visibility.messages(viewer, rows)
    const names = await namesOf(rows.map(({ senderId }) => senderId))
    const posting = await prisma.$queryRaw<{ messageId: string; callId: string }[]>`
      SELECT m.id AS "messageId", c.id AS "callId" FROM "Message" m JOIN "ToolCall" c ON c."runId" = m."runId"
      WHERE m.id = ANY(${ids}::text[]) AND (c.id = m."runPostKey" OR c."messageId" = m.id OR c.output->>'messageId' = m.id) ORDER BY c.id`
    const originals = await prisma.$queryRaw<{ copyId: string; id: string }[]>`
      SELECT m.id AS "copyId", o.id FROM "Message" m JOIN "Space" s ON s.id = m."spaceId" AND m.seq <= s."forkSeq"
      JOIN "Message" o ON o."spaceId" = s."forkOfId" AND o.seq = m.seq WHERE m.id = ANY(${ids}::text[])`
    return rows.map((row): Found => {
      const { space, seq, runId, senderId, actingAdminId } = row
      const isCopy = seq <= (space.forkSeq ?? 0)
      const original = originals.find(({ copyId }) => copyId === row.id)?.id ?? `${ERASED}${row.id}`
      const posted = posting.flatMap(({ messageId, callId }) => (messageId === row.id ? [callId] : []))
      const own = posted.length > 0 ? posted : [runId ?? senderId]
      return {
        key: row.id,
        kind: 'MESSAGE',
        at: row.createdAt,
        text: `Message ${seq} in ${JSON.stringify(space.name)}, by ${names.get(senderId) ?? 'somebody'}${quoteOf(row)}${isCopy ? ', copied' : ''}`,
        causes: isCopy ? [original] : [...own, actingAdminId].filter((id) => id !== null),
        isVisible: seen.has(row.id),
      }
    })
  }

  const calls: Reader = async (viewer, ids) => {
    const rows = await prisma.toolCall.findMany({
      where: { id: { in: ids } },
      include: { decisions: true },
      omit: { input: true, output: true, state: true },
    })
    const read = await visibility.toolCallContents(viewer, rows)
    const originals = await originalCalls(ids)
    // A copied call has no run, but the copy of its message shows it.
    const copied = rows.filter(({ id, spaceId }) => originals.has(id) && spaceId !== null)
    const spaces = await visibility.spaces(
      viewer,
      copied.map(({ spaceId }) => spaceId ?? ''),
    )
    const shown = copied.flatMap(({ id, spaceId }) => (spaces.has(spaceId ?? '') ? [id] : []))
    const seen = new Set([...(await visibility.toolCalls(viewer, rows)), ...shown])
    const steps = await prisma.step.findMany({
      where: { OR: rows.map(({ runId, stepIndex }) => ({ runId, index: stepIndex })) },
      select: { id: true, runId: true, index: true },
    })
    const grants = await prisma.grantDecision.findMany({
      where: { grantId: { in: rows.flatMap(({ grantId }) => grantId ?? []) }, approve: true },
    })
    return rows.map((row): Found => {
      const step = steps.find(({ runId, index }) => runId === row.runId && index === row.stepIndex)
      const deciders = row.decisions.filter(({ approve, counted }) => approve && counted !== false)
      const granting = grants.filter(({ grantId }) => grantId === row.grantId)
      const people = read.has(row.id) ? [...deciders, ...granting].map(({ humanId }) => humanId) : []
      return {
        key: row.id,
        kind: 'TOOL_CALL',
        at: row.createdAt,
        text: `Call to ${row.toolName} (${row.status.toLowerCase()})${people.length > 0 ? ', approved by people' : ''}${originals.has(row.id) ? ', copied' : ''}`,
        causes: originals.has(row.id)
          ? [originals.get(row.id) ?? `${ERASED}${row.id}`]
          : [step?.id ?? row.runId, ...people],
        isVisible: seen.has(row.id),
      }
    })
  }

  /**
   * Returns the originals of calls that were copied together with a message and have no run; null if the original
   * was deleted.
   */
  async function originalCalls(ids: readonly string[]): Promise<Map<string, string | null>> {
    const rows = await prisma.$queryRaw<{ id: string; originalId: string | null }[]>`
      SELECT c.id, (
        SELECT o.id FROM "Message" om JOIN "ToolCall" o ON o."messageId" = om.id
        WHERE om."spaceId" = s."forkOfId" AND om.seq = m.seq AND "copiedId"(o.id, s.id) = c.id LIMIT 1) AS "originalId"
      FROM "ToolCall" c JOIN "Message" m ON m.id = c."messageId" JOIN "Space" s ON s.id = m."spaceId" AND m.seq <= s."forkSeq"
      WHERE c.id = ANY(${[...ids]}::text[]) AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId")`
    return new Map(rows.map(({ id, originalId }) => [id, originalId]))
  }

  const steps: Reader = async (viewer, ids) => {
    const rows = await prisma.step.findMany({
      where: { id: { in: ids } },
      select: { id: true, index: true, startedAt: true, model: true, run: true },
    })
    const before = await callsBefore(ids)
    const isVisible = ({ run }: { run: Run }) => visibility.runThoughts(viewer, run)
    const prompts = await promptParts(rows.filter(isVisible).map(({ id }) => id))
    const previous = await prisma.step.findMany({
      where: { OR: rows.filter(isVisible).map(({ run, index }) => ({ runId: run.id, index: index - 1 })) },
      select: { id: true, runId: true, index: true },
    })
    return rows.map((row): Found => {
      const calls = before.filter(({ stepId }) => stepId === row.id)
      const isNext = calls.some(({ stepIndex }) => stepIndex === row.index - 1)
      const last = previous.find(({ runId, index }) => runId === row.run.id && index === row.index - 1)
      const from = calls.length > 0 ? calls.map(({ callId }) => callId) : [row.run.id]
      return {
        key: row.id,
        kind: 'STEP',
        at: row.startedAt,
        text: `Step ${row.index + 1} of a run, by ${row.model}`,
        causes: [...(isNext || last === undefined ? from : [last.id]), ...(prompts.get(row.id) ?? [])],
        isVisible: isVisible(row),
        knownCauses: from,
      }
    })
  }

  /** Returns the calls that preceded each step: the calls of the last earlier step that made any. */
  function callsBefore(stepIds: readonly string[]): Promise<{ stepId: string; callId: string; stepIndex: number }[]> {
    return prisma.$queryRaw`
      SELECT s.id AS "stepId", c.id AS "callId", c."stepIndex" FROM "Step" s JOIN "ToolCall" c ON c."runId" = s."runId" AND c."stepIndex" = (
        SELECT max(b."stepIndex") FROM "ToolCall" b WHERE b."runId" = s."runId" AND b."stepIndex" < s.index)
      WHERE s.id = ANY(${[...stepIds]}::text[]) ORDER BY c.id`
  }

  /**
   * Returns the memories and messages that each step read. They are quoted in the step's instructions, or their ids are
   * in its messages or in the results of earlier calls.
   */
  async function promptParts(stepIds: readonly string[]): Promise<Map<string, string[]>> {
    if (stepIds.length === 0) return new Map()
    const shown: ShownStep[] = await prisma.$queryRaw`
      SELECT s.id, s."runId", r."agentId", (
          SELECT i.id FROM "Step" i WHERE i."runId" = s."runId" AND i.index <= s.index AND i.instructions IS NOT NULL
          ORDER BY i.index DESC LIMIT 1) AS "instructionsOf",
        ARRAY(SELECT found[1] FROM (
          SELECT s."messagesAdded"::text AS text
          UNION ALL SELECT c.output::text FROM "ToolCall" c WHERE c."runId" = s."runId" AND c."stepIndex" = s.index - 1
        ) t, regexp_matches(t.text, '\\mmsg_[0-9a-f]{32}\\M', 'g') found) AS "messageIds"
      FROM "Step" s JOIN "Run" r ON r.id = s."runId" WHERE s.id = ANY(${[...stepIds]}::text[])`
    const memories = await quotedMemories(shown)
    const messageIds = (ids: string[]) => [...new Set(ids)].slice(-MOST_MESSAGES_OF_STEP)
    const known = await prisma.message.findMany({
      where: { id: { in: shown.flatMap((step) => messageIds(step.messageIds)) } },
      select: { id: true, runId: true },
    })
    const runOf = new Map(known.map((message) => [message.id, message.runId]))
    return new Map(
      shown.map(({ id, runId, instructionsOf, messageIds: all }) => [
        id,
        [
          ...(memories.get(instructionsOf ?? '') ?? []),
          // Messages of the run itself are excluded, because they are effects of its steps and not causes.
          ...messageIds(all).filter((messageId) => runOf.has(messageId) && runOf.get(messageId) !== runId),
        ],
      ]),
    )
  }

  /**
   * Returns the memories that instructions quote, by the step that stores the instructions. Reads each text once, a few
   * at a time, so that a long trace does not use much memory or block the process.
   */
  async function quotedMemories(shown: readonly ShownStep[]): Promise<Map<string, string[]>> {
    const agentIds = [...new Set(shown.map(({ agentId }) => agentId))]
    const memories = await prisma.memory.findMany({
      where: { agentId: { in: agentIds } },
      orderBy: { updatedAt: 'desc' },
      select: { id: true, agentId: true, key: true, value: true },
    })
    const linesOf = Map.groupBy(
      memories.map(({ id, agentId, key, value }) => ({ id, agentId, line: memoryLine({ key, value }) })),
      ({ agentId }) => agentId,
    )
    const agentOf = new Map(
      shown.flatMap(({ instructionsOf, agentId }) =>
        instructionsOf === null ? [] : [[instructionsOf, agentId] as const],
      ),
    )
    const quoted = new Map<string, string[]>()
    const stepIds = [...agentOf.keys()].filter((id) => linesOf.has(agentOf.get(id) ?? ''))
    for (let start = 0; start < stepIds.length; start += TEXTS_AT_ONCE) {
      const texts = await prisma.step.findMany({
        where: { id: { in: stepIds.slice(start, start + TEXTS_AT_ONCE) } },
        select: { id: true, instructions: true },
      })
      for (const { id, instructions } of texts) {
        const lines = new Set(instructions?.split('\n'))
        const own = linesOf.get(agentOf.get(id) ?? '') ?? []
        const found = own.filter(({ line }) => lines.has(line)).slice(0, MOST_MEMORIES_OF_STEP)
        quoted.set(
          id,
          found.map((memory) => memory.id),
        )
      }
    }
    return quoted
  }

  const runs: Reader = async (viewer, ids) => {
    const rows = await prisma.run.findMany({ where: { id: { in: ids } } })
    const seen = await visibility.runs(viewer, rows)
    const names = await namesOf(rows.flatMap(({ agentId, triggerSenderId }) => [agentId, triggerSenderId ?? agentId]))
    const rooms = await visibility.spaces(
      viewer,
      rows.flatMap(({ triggerSpaceId }) => triggerSpaceId ?? []),
    )
    const posting = await prisma.message.findMany({
      where: { runId: { in: ids } },
      distinct: ['runId'],
      select: { runId: true },
    })
    const posted = new Set(posting.map(({ runId }) => runId))
    const versions = await prisma.agentVersion.findMany({
      where: { OR: rows.map(({ agentId, agentVersion: number }) => ({ agentId, number })) },
      select: { id: true, agentId: true, number: true },
    })
    const events = await prisma.inboxEvent.findMany({ where: { runId: { in: ids } }, orderBy: { id: 'asc' } })
    return rows.map((row): Found => {
      const { agentId, agentVersion } = row
      const version = versions.find((one) => one.agentId === agentId && one.number === agentVersion)?.id
      const pruned = agentVersion === 0 ? [] : [`${ERASED}${agentId}:${agentVersion}`]
      const own = events.filter(({ runId }) => runId === row.id)
      const triggers = row.triggerType === 'INBOX' ? own.flatMap(triggersOfEvent) : triggersOfRun(row)
      return {
        key: row.id,
        kind: 'RUN',
        at: row.queuedAt,
        text: `${names.get(agentId) ?? 'An agent'} ${verbOf(row, posted.has(row.id))} ${subjectOf(row, rooms.has(row.triggerSpaceId ?? '') ? names : new Map())}`,
        causes: [
          ...(triggers.length > 0 ? triggers : [`${ERASED}${row.id}`]),
          ...[row.parentRunId, row.retryOfId].filter((id) => id !== null),
          ...(version === undefined ? pruned : [version]),
        ],
        isVisible: seen.has(row.id),
      }
    })
  }

  const versions: Reader = async (viewer, ids) => {
    const rows = await prisma.$queryRaw<
      {
        id: string
        number: number
        createdAt: Date
        authorId: string | null
        name: string
        originalId: string | null
      }[]
    >`
      SELECT v.id, v.number, v."createdAt", v."authorId", e.name, (
        SELECT o.id FROM "AgentVersion" o WHERE o."agentId" = a."copyOfId" AND v.number = 1 AND o."createdAt" <= v."createdAt"
        ORDER BY o.number DESC LIMIT 1) AS "originalId"
      FROM "AgentVersion" v JOIN "Agent" a ON a.id = v."agentId" JOIN "Entity" e ON e.id = a.id WHERE v.id = ANY(${ids}::text[])`
    return rows.map(
      (row): Found => ({
        key: row.id,
        kind: 'AGENT_VERSION',
        at: row.createdAt,
        text: `Version ${row.number} of ${row.name}${row.authorId === null ? ', by the operator' : ''}`,
        causes: [row.authorId, row.originalId].filter((id) => id !== null),
        isVisible: isAdmin(viewer),
      }),
    )
  }

  const memories: Reader = async (viewer, ids) => {
    const rows = await prisma.$queryRaw<
      {
        id: string
        key: string
        updatedAt: Date
        callId: string | null
        actorId: string | null
        isByAdmin: boolean
        originalId: string | null
      }[]
    >`
      SELECT m.id, m.key, m."updatedAt", call.id AS "callId", deed."actorId", deed.id IS NOT NULL AS "isByAdmin", (
        SELECT o.id FROM "Memory" o JOIN "Agent" a ON a.id = m."agentId" AND o."agentId" = a."copyOfId"
        WHERE o.key = m.key AND o.value = m.value AND o.places = m.places AND o.label = m.label LIMIT 1) AS "originalId"
      FROM "Memory" m LEFT JOIN LATERAL (
        SELECT c.id FROM "ToolCall" c WHERE c."agentId" = m."agentId" AND c."toolName" = ANY(${SET_MEMORIES}::text[]) AND c.status = 'DONE'
          AND c.input @> jsonb_build_object('memories', jsonb_build_array(jsonb_build_object('key', m.key, 'value', m.value)))
        ORDER BY c.id DESC LIMIT 1
      ) call ON true LEFT JOIN LATERAL (
        SELECT d.id, d."actorId" FROM "AuditEntry" d WHERE d.action = 'setMemories' AND d."targetId" = m."agentId" AND NOT d.refused
          AND d.at BETWEEN m."updatedAt" - interval '10 seconds' AND m."updatedAt" + interval '10 seconds' ORDER BY d.id DESC LIMIT 1
      ) deed ON call.id IS NULL WHERE m.id = ANY(${ids}::text[])`
    return rows.map((row): Found => {
      const source = row.callId ?? row.originalId ?? row.actorId ?? (row.isByAdmin ? null : `${ERASED}${row.id}`)
      return {
        key: row.id,
        kind: 'MEMORY',
        at: row.updatedAt,
        text: `Memory ${JSON.stringify(oneLine(row.key))}${row.isByAdmin ? ', written by an admin' : ''}`,
        causes: source === null ? [] : [source],
        isVisible: isAdmin(viewer),
      }
    })
  }

  const plans: Reader = async (viewer, ids) => {
    const rows = await prisma.$queryRaw<
      { id: string; name: string; createdAt: Date; callId: string | null; actorId: string | null }[]
    >`
      SELECT p.id, p.name, p."createdAt", (
        SELECT c.id FROM "ToolCall" c WHERE c."agentId" = p."agentId" AND c."toolName" = ANY(${SET_PLANS}::text[]) AND c.status = 'DONE'
          AND c.output @> jsonb_build_object('plans', jsonb_build_array(jsonb_build_object('id', p.id))) ORDER BY c.id DESC LIMIT 1
      ) AS "callId", (
        SELECT d."actorId" FROM "AuditEntry" d WHERE d.action = 'createPlan' AND d."targetId" = p.id AND NOT d.refused LIMIT 1
      ) AS "actorId" FROM "Plan" p WHERE p.id = ANY(${ids}::text[])`
    return rows.map(
      (row): Found => ({
        key: row.id,
        kind: 'PLAN',
        at: row.createdAt,
        text: `Plan ${JSON.stringify(oneLine(row.name))}`,
        causes: [row.callId ?? row.actorId].filter((id) => id !== null),
        isVisible: isAdmin(viewer),
      }),
    )
  }

  const entities: Reader = async (viewer, ids) => {
    const rows = await prisma.entity.findMany({ where: { id: { in: ids } } })
    const seen = await visibility.entities(viewer, ids)
    return rows.map(
      (row): Found => ({
        key: row.id,
        text: row.name,
        at: row.createdAt,
        causes: [],
        isVisible: seen.has(row.id),
        // Retention has deleted the run, so only the agent can be shown.
        kind: row.kind === 'HUMAN' && row.goneAt === null ? 'HUMAN' : 'ERASED',
      }),
    )
  }

  const services: Reader = async (viewer, ids) => {
    const tokens = await prisma.accessToken.findMany({ where: { id: { in: ids } } })
    const webhooks = await prisma.webhook.findMany({ where: { id: { in: ids } } })
    const rows = [...tokens.map((row) => ({ ...row, serviceName: row.serviceName ?? row.label })), ...webhooks]
    return rows.map(
      (row): Found => ({
        key: row.id,
        kind: 'SERVICE',
        at: null,
        causes: [],
        text: `Service ${JSON.stringify(oneLine(row.serviceName ?? ''))}`,
        isVisible: isAdmin(viewer) || viewer.id === row.id,
      }),
    )
  }

  const READERS: Record<string, Reader> = {
    msg: messages,
    tcl: calls,
    stp: steps,
    run: runs,
    agv: versions,
    mem: memories,
    pln: plans,
    hum: entities,
    agt: entities,
    acc: services,
    whk: services,
  }

  async function namesOf(ids: readonly string[]): Promise<Map<string, string>> {
    const rows = await prisma.entity.findMany({ where: { id: { in: [...ids] } }, select: { id: true, name: true } })
    return new Map(rows.map(({ id, name }) => [id, oneLine(name)]))
  }

  async function read(viewer: Viewer, ids: readonly string[]): Promise<Cause[]> {
    const byPrefix = Map.groupBy(ids, (id) => prefixOf(id) ?? '')
    const found = await Promise.all([...byPrefix].map(([prefix, some]) => READERS[prefix]?.(viewer, some) ?? []))
    const causes = new Map(found.flat().map((one) => [one.key, causeOf(one)]))
    return ids.map((key) => causes.get(key) ?? { key, kind: 'ERASED', text: '', at: null, causes: [] })
  }

  return {
    async trace(viewer, id) {
      if (!EXPLAINED.includes(prefixOf(id) ?? '')) return null
      const all = await read(viewer, [id])
      if (all[0]?.kind === 'HIDDEN' || all[0]?.kind === 'ERASED') return null
      const known = new Set([id])
      for (let next = all.slice(); next.length > 0 && all.length < MOST_WHY_STEPS; ) {
        const keys = [...new Set(next.flatMap(({ causes }) => causes))].filter((key) => !known.has(key))
        const some = keys.slice(0, MOST_WHY_STEPS - all.length)
        for (const key of some) known.add(key)
        next = some.length === 0 ? [] : await read(viewer, some)
        all.push(...next)
      }
      return { steps: stepsOf(all) }
    },
  }
}

/** Reads causes by their ids. Omits unknown ids. */
type Reader = (viewer: Viewer, ids: string[]) => Promise<Found[]>

const LONGEST_QUOTE = 100

/** Returns the beginning of a message's text. */
function quoteOf({ parts, deletedAt }: { parts: Prisma.JsonValue; deletedAt: Date | null }): string {
  if (deletedAt !== null) return ' (deleted)'
  const text = cut(oneLine(textOf(parts as unknown as MessagePart[])), LONGEST_QUOTE)
  return text === '' ? '' : `: ${JSON.stringify(text)}`
}

const causeOf = ({ isVisible, knownCauses = [], ...found }: Found): Cause =>
  isVisible || found.kind === 'ERASED' ? found : { ...found, kind: 'HIDDEN', causes: knownCauses }

/** Returns a phrase that says what a run did with its trigger. */
function verbOf({ status, stopReason }: Pick<Run, 'status' | 'stopReason'>, hasPosted: boolean): string {
  if (status === 'FAILED') return 'failed to handle'
  if (status === 'CANCELED') return 'was stopped while it handled'
  if (status !== 'COMPLETED') return 'is handling'
  if (stopReason === 'SKIPPED') return 'did not respond to'
  return hasPosted ? 'answered' : 'handled'
}

/** @param names the names of senders whom the viewer may see */
function subjectOf({ triggerType, triggerSenderId }: Run, names: ReadonlyMap<string, string>): string {
  const sender = names.get(triggerSenderId ?? '')
  if (triggerType === 'SPACE_MESSAGE') return sender === undefined ? 'a message' : `${sender}’s message`
  return SUBJECTS[triggerType]
}

const SUBJECTS = { PLAN: 'a plan', SERVICE: 'a request from a service', INBOX: 'its inbox' }

interface Triggered {
  dedupKey: string | null
  triggerMessageId: string | null
  triggerServiceId: string | null
}

const planIn = (key: string | null): string[] => (key ?? '').split(':').filter((part) => part.startsWith('pln_'))

function triggersOfRun({ dedupKey, triggerMessageId, triggerServiceId }: Triggered): string[] {
  return [...[triggerMessageId, triggerServiceId].filter((id) => id !== null), ...planIn(dedupKey)]
}

function triggersOfEvent(event: { dedupKey: string; messageId: string | null; payload: Prisma.JsonValue }): string[] {
  const payload = (event.payload ?? {}) as Record<string, unknown>
  const ids = [event.messageId, payload['planId'], payload['serviceId'], payload['toolCallId']]
  return [...new Set([...ids.filter((id) => typeof id === 'string'), ...planIn(event.dedupKey)])]
}

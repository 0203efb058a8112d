import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { prefixOf } from '../lib/ids.ts'
import { cut, oneLine } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { type MessagePart, textOf } from '../rules/message.ts'
import { isAdmin } from '../rules/permissions.ts'
import { type Cause, MOST_WHY_STEPS, stepsOf, type WhyKind, type WhyStep } from '../rules/why.ts'

/** Explains where something came from. */
export interface WhyReading {
  /**
   * Returns the causes of a message, tool call, run or memory, back to people, plans and services; null if the viewer may not
   * see it. A cause that the viewer may not see is hidden, with everything that is known only through it.
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
  /** The causes that a viewer may know who may not see this one. */
  knownCauses?: string[]
}

const EXPLAINED = ['msg', 'tcl', 'run', 'mem']
const ERASED = 'erased:'
/** Messages in one prompt of which the trace continues. */
const MOST_MESSAGES_OF_STEP = 20
const MOST_MEMORIES_OF_STEP = 50

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
        ...{ key: row.id, kind: 'MESSAGE', at: row.createdAt },
        text: `Message ${seq} in ${JSON.stringify(space.name)}, by ${names.get(senderId) ?? 'somebody'}${quoteOf(row)}${isCopy ? ', copied' : ''}`,
        causes: isCopy ? [original] : [...own, actingAdminId].filter((id) => id !== null),
        isVisible: seen.has(row.id),
      }
    })
  }

  const calls: Reader = async (viewer, ids) => {
    const rows = await prisma.toolCall.findMany({ where: { id: { in: ids } }, include: { decisions: true } })
    const seen = await visibility.toolCalls(viewer, rows)
    const read = await visibility.toolCallContents(viewer, rows)
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
        ...{ key: row.id, kind: 'TOOL_CALL', at: row.createdAt },
        text: `Call of ${row.toolName} (${row.status.toLowerCase()})${people.length > 0 ? ', approved by people' : ''}`,
        causes: [step?.id ?? row.runId, ...people],
        isVisible: seen.has(row.id),
      }
    })
  }

  const steps: Reader = async (viewer, ids) => {
    const rows = await prisma.step.findMany({ where: { id: { in: ids } }, include: { run: true } })
    const found: Found[] = []
    for (const { run, ...row } of rows) {
      const before = await prisma.toolCall.findMany({
        where: { runId: run.id, stepIndex: row.index - 1 },
        select: { id: true, output: true },
        orderBy: { id: 'asc' },
      })
      const [last] =
        row.index === 0
          ? []
          : await prisma.step.findMany({ where: { runId: run.id, index: row.index - 1 }, select: { id: true } })
      const from = before.length > 0 ? before.map(({ id }) => id) : [last?.id ?? run.id]
      const isVisible = visibility.runThoughts(viewer, run)
      found.push({
        ...{ key: row.id, kind: 'STEP', at: row.startedAt },
        text: `Step ${row.index} of a run, by ${row.model}`,
        causes: [
          ...from,
          ...(isVisible
            ? await promptParts(
                { ...row, agentId: run.agentId },
                before.map(({ output }) => output),
              )
            : []),
        ],
        isVisible,
        knownCauses: from,
      })
    }
    return found
  }

  /** The memories and messages that a step was shown: as quoted in its instructions, and by id in its messages. */
  async function promptParts(
    { runId, index, agentId, messagesAdded }: { runId: string; index: number; agentId: string; messagesAdded: unknown },
    results: readonly unknown[],
  ): Promise<string[]> {
    const [shown] = await prisma.step.findMany({
      where: { runId, index: { lte: index }, instructions: { not: null } },
      select: { instructions: true },
      orderBy: { index: 'desc' },
      take: 1,
    })
    const memories = await prisma.memory.findMany({ where: { agentId }, orderBy: { updatedAt: 'desc' } })
    const instructions = shown?.instructions ?? ''
    const isShown = ({ key, value }: { key: string; value: string }) =>
      instructions.includes(`- ${JSON.stringify(key)}: ${JSON.stringify(value)}`)
    const text = JSON.stringify([messagesAdded, results])
    const messageIds = [...new Set(text.match(/\bmsg_[0-9a-f]{32}\b/g))].slice(-MOST_MESSAGES_OF_STEP)
    const known = await prisma.message.findMany({
      // Messages of the run itself came from its steps, not the other way round.
      where: { id: { in: messageIds }, NOT: { runId } },
      select: { id: true },
    })
    const memoryIds = memories.filter(isShown).slice(0, MOST_MEMORIES_OF_STEP)
    return [...memoryIds, ...known].map(({ id }) => id)
  }

  const runs: Reader = async (viewer, ids) => {
    const rows = await prisma.run.findMany({ where: { id: { in: ids } } })
    const seen = await visibility.runs(viewer, rows)
    const names = await namesOf(rows.map(({ agentId }) => agentId))
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
        ...{ key: row.id, kind: 'RUN', at: row.queuedAt },
        text: `Run of ${names.get(agentId) ?? 'an agent'} (${row.status.toLowerCase()}), ${TRIGGERED[row.triggerType]}`,
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
        ...{ key: row.id, kind: 'AGENT_VERSION', at: row.createdAt },
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
        ...{ key: row.id, kind: 'MEMORY', at: row.updatedAt },
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
        ...{ key: row.id, kind: 'PLAN', at: row.createdAt },
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
        ...{ key: row.id, text: row.name, at: row.createdAt, causes: [], isVisible: seen.has(row.id) },
        // An agent without a run: the run has passed its retention.
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
        ...{ key: row.id, kind: 'SERVICE', at: null, causes: [] },
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

/** Reads causes by their ids; unknown ones are left out. */
type Reader = (viewer: Viewer, ids: string[]) => Promise<Found[]>

const LONGEST_QUOTE = 100

/** The beginning of a message's text. */
function quoteOf({ parts, deletedAt }: { parts: Prisma.JsonValue; deletedAt: Date | null }): string {
  if (deletedAt !== null) return ' (deleted)'
  const text = cut(oneLine(textOf(parts as unknown as MessagePart[])), LONGEST_QUOTE)
  return text === '' ? '' : `: ${JSON.stringify(text)}`
}

const causeOf = ({ isVisible, knownCauses = [], ...found }: Found): Cause =>
  isVisible || found.kind === 'ERASED' ? found : { ...found, kind: 'HIDDEN', causes: knownCauses }

const TRIGGERED = {
  SPACE_MESSAGE: 'started by a message',
  PLAN: 'started by a plan',
  SERVICE: 'started by a service',
  INBOX: 'started by its inbox',
}

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

import { cut } from '../lib/json.ts'
import { estimateTokens } from '../lib/token-estimate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * The part of a consciousness that was shown to a cycle: the cycles from `whole` to `end` in full, and the summaries of
 * the cycles from `summed` to `whole`. Stored cycles never change, so these numbers suffice to read the same part
 * again.
 */
export interface Recall {
  summed: number
  whole: number
  end: number
  /** The spaces whose cycles are omitted. */
  hidden?: string[]
  /** The agent's limits when this part was chosen; absent in older rows. */
  allowed?: Allowed
}

/** The configured limits of the agent. */
export interface Allowed {
  tokens: number
  /** The minimum number of cycles to show in full, unless these cycles alone are too large. */
  leastWhole: number
}

/** A ModelMessage of the AI SDK, as JSON. */
export type StoredMessage = { role: string; content: unknown }

export interface Recalled {
  recall: Recall
  messages: StoredMessage[]
  /** The estimated number of tokens. */
  tokens: number
}

/** Selects the part of a consciousness that is shown to the model. */
export interface Recalling {
  /**
   * Chooses the earlier cycles to show to the agent's next cycle, with at most `budget` tokens. As long as all cycles
   * since the last compaction fit, all of them are shown, so that the prompt keeps a prefix that providers cache.
   *
   * Otherwise, a compaction takes place. The newest cycles are shown in full in half of the budget. There are at least
   * `leastWhole` of them, even above the budget, if these have at most `mostWhole` tokens. Before them, as many
   * summaries as fit are shown, preferring the newest. If the agent's limits are raised later, omitted cycles are shown
   * again.
   *
   * Reads only cycles that fit into the budget. Ignores cycles from `hidden` spaces.
   */
  choose(agentId: string, limits: RecallLimits): Promise<Recalled>
  /** Reads a part that was chosen earlier. */
  again(agentId: string, recall: Recall): Promise<StoredMessage[]>
  /** Reads several parts with one statement, and returns them by key. */
  againMany(asked: { key: string; agentId: string; recall: Recall }[]): Promise<Map<string, StoredMessage[]>>
}

export interface RecallLimits {
  /** The number of tokens that are left after the rest of the prompt. */
  budget: number
  /** The maximum number of tokens of the `leastWhole` newest cycles, independent of the rest of the prompt. */
  mostWhole: number
  allowed: Allowed
  hidden?: readonly string[]
}

interface Size {
  index: number
  tokenEstimate: number
}

interface Summary {
  index: number
  summary: string
  createdAt: Date
}

const LONGEST_SUMMARY = 600
/**
 * The share of the budget that a compaction uses for full cycles. The next constant is the maximum share for summaries.
 */
const WHOLE_SHARE = 0.5
const SUMMARY_SHARE = 0.25
/**
 * The maximum number of cycles that are considered for one prompt. A few hundred fit into a budget of 100,000 tokens.
 */
const MOST_CYCLES = 5000
const SUMMARIES_AT_ONCE = 500

export function createRecalling({ db }: Pick<Platform, 'db'>): Recalling {
  const { prisma } = db

  async function summariesTokens(agentId: string, hidden: Hidden, from: number, to: number): Promise<number> {
    const text = summariesMessage(await readSummaries(prisma, agentId, hidden, from, to))
    return text === null ? 0 : estimateTokens(text.content as string)
  }

  /** Returns the first cycle whose summary fits into `room`, counting from the newest. */
  async function summedFrom(
    agentId: string,
    hidden: Hidden,
    { first, whole, room }: { first: number; whole: number; room: number },
  ): Promise<number> {
    const least = Math.max(first, whole - SUMMARIES_AT_ONCE)
    const rows = await readSummaries(prisma, agentId, hidden, least, whole)
    let left = room - estimateTokens(HEADING)
    let from = whole
    for (const row of rows.reverse()) {
      left -= estimateTokens(summaryLine(row)) + 1
      if (left < 0) break
      from = row.index
    }
    return from
  }

  const againMany: Recalling['againMany'] = async (asked) => {
    const column = (value: (recall: Recall) => number) => asked.map(({ recall }) => value(recall))
    const rows = await prisma.$queryRaw<RecalledRow[]>`
      SELECT asked.key, c.index, c.summary, c."createdAt", CASE WHEN c.index >= asked.whole THEN c.messages END AS messages
      FROM unnest(${asked.map(({ key }) => key)}::text[], ${asked.map(({ agentId }) => agentId)}::text[],
        ${column(({ summed }) => summed)}::int[], ${column(({ whole }) => whole)}::int[], ${column(({ end }) => end)}::int[],
        ${asked.map(({ recall }) => (recall.hidden ?? []).join(' '))}::text[]
      ) AS asked(key, "agentId", summed, whole, "end", hidden)
      JOIN "Cycle" c ON c."agentId" = asked."agentId" AND c.index >= asked.summed AND c.index < asked."end"
        AND NOT (c.places || c.label && string_to_array(asked.hidden, ' '))
      ORDER BY c.index`
    const byKey = Map.groupBy(rows, ({ key }) => key)
    return new Map(asked.map(({ key }) => [key, messagesOfRows(byKey.get(key) ?? [])]))
  }

  const again: Recalling['again'] = async (agentId, recall) =>
    (await againMany([{ key: '', agentId, recall }])).get('') ?? []

  return {
    async choose(agentId, { budget, mostWhole, allowed, hidden = [] }) {
      const last = await readLast(prisma, agentId)
      const isOutgrown = last.allowed !== undefined && exceeds(allowed, last.allowed)
      const before = isOutgrown ? { ...last, summed: last.first, whole: last.first } : last
      const sizes = await readSizes(prisma, agentId, hidden, before.whole, before.end)
      const sum = sizes.reduce((total, { tokenEstimate }) => total + tokenEstimate, 0)
      // A cycle that is hidden now can be visible in a later cycle.
      const whole = hidden.length > 0 ? before.whole : (sizes.at(-1)?.index ?? before.end)
      const earliest = Math.max(before.summed, whole - SUMMARIES_AT_ONCE)
      const summaries = sum > budget ? 0 : await summariesTokens(agentId, hidden, earliest, whole)
      if (sum + summaries <= budget) {
        const recall = {
          summed: earliest,
          whole,
          end: before.end,
          ...but(hidden),
          allowed: isOutgrown ? allowed : (before.allowed ?? allowed),
        }
        return { recall, messages: await again(agentId, recall), tokens: sum + summaries }
      }
      const kept = newest(sizes, Math.floor(budget * WHOLE_SHARE), mostWhole, allowed.leastWhole)
      const from = kept.at(-1)?.index ?? before.end
      const tokens = kept.reduce((total, { tokenEstimate }) => total + tokenEstimate, 0)
      const room = Math.min(budget - tokens, Math.floor(budget * SUMMARY_SHARE))
      const summed = await summedFrom(agentId, hidden, { first: before.first, whole: from, room })
      const recall = { summed, whole: from, end: before.end, allowed, ...but(hidden) }
      const summedTokens = await summariesTokens(agentId, hidden, summed, from)
      return { recall, messages: await again(agentId, recall), tokens: tokens + summedTokens }
    },
    again,
    againMany,
  }
}

/** The spaces whose cycles are not shown. */
type Hidden = readonly string[]

const but = (hidden: Hidden) => (hidden.length === 0 ? {} : { hidden: [...hidden] })

function outside(hidden: Hidden) {
  if (hidden.length === 0) return {}
  return { NOT: { OR: [{ places: { hasSome: [...hidden] } }, { label: { hasSome: [...hidden] } }] } }
}

type RecalledRow = Summary & { key: string; messages: StoredMessage[] | null }

function messagesOfRows(rows: RecalledRow[]): StoredMessage[] {
  const opening = summariesMessage(rows.filter(({ messages }) => messages === null))
  const cycles = rows.flatMap(({ messages }) => messages ?? [])
  return opening === null ? cycles : [opening, ...cycles]
}

function exceeds(now: Allowed, then: Allowed): boolean {
  return now.tokens > then.tokens || now.leastWhole > then.leastWhole
}

/**
 * Returns the newest sizes that fit into `target`, newest first. Returns at least `least` of them if these fit into
 * `most`.
 */
function newest(sizes: Size[], target: number, most: number, least: number): Size[] {
  let sum = 0
  const end = sizes.findIndex(({ tokenEstimate }, index) => {
    sum += tokenEstimate
    return sum > (index < least ? most : target)
  })
  return end === -1 ? sizes : sizes.slice(0, end)
}

/** Returns the part that was shown to the last cycle, without cycles that have been deleted since. */
async function readLast(tx: Tx, agentId: string): Promise<Recall & { first: number }> {
  const [row] = await tx.$queryRaw<{ first: number; end: number; recall: Recall | null }[]>`
    SELECT a."firstCycle" AS first, a."cycleCount" AS "end", r.state->'recall' AS recall FROM "Agent" a
    LEFT JOIN "Cycle" c ON c."agentId" = a.id AND c.index = a."cycleCount" - 1 LEFT JOIN "Run" r ON r.id = c."runId"
    WHERE a.id = ${agentId}`
  const { first, end, recall } = row ?? { first: 0, end: 0, recall: null }
  return {
    first,
    end,
    summed: Math.max(first, recall?.summed ?? first),
    whole: Math.max(first, recall?.whole ?? first),
    ...(recall?.allowed === undefined ? {} : { allowed: recall.allowed }),
  }
}

/** Reads the sizes of cycles, newest first. */
function readSizes(tx: Tx, agentId: string, hidden: Hidden, from: number, to: number): Promise<Size[]> {
  return tx.cycle.findMany({
    where: { agentId, index: { gte: from, lt: to }, ...outside(hidden) },
    orderBy: { index: 'desc' },
    select: { index: true, tokenEstimate: true },
    take: MOST_CYCLES,
  })
}

function readSummaries(tx: Tx, agentId: string, hidden: Hidden, from: number, to: number): Promise<Summary[]> {
  if (from >= to) return Promise.resolve([])
  return tx.cycle.findMany({
    where: { agentId, index: { gte: from, lt: to }, ...outside(hidden) },
    orderBy: { index: 'asc' },
    select: { index: true, summary: true, createdAt: true },
  })
}

const HEADING = 'EARLIER CYCLES (your own closing words, oldest first; what came before them is no longer shown):'

function summaryLine({ index, summary, createdAt }: Summary): string {
  const text = summary.length > LONGEST_SUMMARY ? `${cut(summary, LONGEST_SUMMARY)}…` : summary
  return `- ${index + 1} (${createdAt.toISOString()}): ${text.replace(/\s+/g, ' ')}`
}

function summariesMessage(summaries: Summary[]): StoredMessage | null {
  if (summaries.length === 0) return null
  return { role: 'user', content: [HEADING, ...summaries.map(summaryLine)].join('\n') }
}

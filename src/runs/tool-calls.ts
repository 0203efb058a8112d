import { Prisma, type Run, type ToolCall, type ToolCallStatus, type ToolExecution } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { type Json, jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isMet, type WaitCondition } from '../spaces/reply-search.ts'

// The only writer of ToolCall. What a run writes of its calls are changes for its hold (hold.ts), so that one statement can
// hold them and what they belong to; some read from `message`, the row of the message that shows the call.
//
//   begun ▶ STREAMING ─ recorded ─▶ RUNNING ─ settled ──▶ DONE, FAILED, TIMED_OUT
//   (shows while its   recorded ─▶    │                      ▲
//   input is written)         │     shown, waiting           │ answered (DONE), or its time is up (TIMED_OUT)
//           │                 ▼       └────▶ WAITING ────────┘
//           │           FAILED: no such tool,   │
//           │           or no JSON              │
//           └─ broken off ─▶ CANCELED ◀─ the run's end, but for what a think cycle asked somebody outside

/** A tool call as the model made it. */
export interface NewToolCall {
  id: string
  modelCallId: string
  toolName: string
  execution: ToolExecution | null
  /** FAILED: it named no tool, or its input was no JSON. */
  status: Extract<ToolCallStatus, 'RUNNING' | 'FAILED'>
  input: Json
  output: Json
  error: string | null
  /** What it must remember over a crash from the beginning: where it shows. */
  state: Json
}

/** What came of a tool call. */
export interface Settlement {
  /** CANCELED: the model broke its input off. */
  status: Extract<ToolCallStatus, 'DONE' | 'FAILED' | 'TIMED_OUT' | 'CANCELED'>
  output: Json
  error: string | null
}

/** A tool call shown as a message's part: being written by the model, running, or waiting for an answer, for a time. */
export interface ShownCall {
  toolCallId: string
  waitMs: number | null
  /** What is known of a call whose input the model is still writing: it is in no journaled step yet. */
  writing?: { toolName: string; execution: ToolExecution | null }
}

/** What somebody outside the server executes. */
export const ANSWERED_OUTSIDE: ToolExecution[] = ['SPACE', 'EXTERNAL']

/** Whether somebody outside the server executes a call. */
export function isAnsweredOutside({ execution }: Pick<ToolCall, 'execution'>): boolean {
  return execution !== null && ANSWERED_OUTSIDE.includes(execution)
}

/** The step of a call that is in no journaled one: its input is being written, or was broken off. */
const NO_STEP = -1

/** Whether a call is in the journal, as part of a step whose generation has ended. */
export function isJournaled({ stepIndex }: Pick<ToolCall, 'stepIndex'>): boolean {
  return stepIndex !== NO_STEP
}

/** The calls of a generation that has ended; of one that shows already, its step and input come now. */
export function recorded(stepIndex: number, calls: NewToolCall[]): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, output, error, state, "settledAt")
    SELECT c.id, held."runId", held."agentId", ${stepIndex}, c."modelCallId", c."toolName", c.execution::"ToolExecution",
      c.status::"ToolCallStatus", c.input, CASE c.status WHEN 'FAILED' THEN c.output END, c.error, c.state, CASE c.status WHEN 'FAILED' THEN now() END
    FROM held, jsonb_to_recordset(${jsonbText(calls)}::jsonb) AS c(id text, "modelCallId" text, "toolName" text,
      execution text, status text, input jsonb, output jsonb, error text, state jsonb)
    ON CONFLICT (id) DO UPDATE SET "stepIndex" = EXCLUDED."stepIndex", "modelCallId" = EXCLUDED."modelCallId",
      status = EXCLUDED.status, input = EXCLUDED.input, output = EXCLUDED.output, error = EXCLUDED.error, state = EXCLUDED.state,
      "settledAt" = EXCLUDED."settledAt"
    RETURNING id`
}

/** A result. `source`: whose row there must be for it. */
export function settled(toolCallId: string, settlement: Settlement, source: 'held' | 'message' = 'held'): Prisma.Sql {
  const { status, output, error } = settlement
  return Prisma.sql`
    UPDATE "ToolCall" SET status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, error = ${error},
      "settledAt" = now()
    FROM ${Prisma.raw(source)} WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** What a call must remember over a crash. */
export function remembered(toolCallId: string, state: Json): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** A call that goes on, RUNNING, to wait for a reply to what it said. */
export interface AskingCall {
  toolCallId: string
  /** WaitState, and what else the call remembers. */
  state: Json
  waitMs: number
}

/** A call waits for a reply to the `message`. */
export function asked({ toolCallId, state, waitMs }: AskingCall): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb, "messageId" = message.id, "spaceId" = message."spaceId",
      "expiresAt" = clock_timestamp() + ${waitMs} * interval '1 millisecond'
    FROM message WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** What answers calls that wait for a reply: they find it when they look. */
export async function replied(tx: Tx, found: { id: string; reply: object }[]): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET state = state || jsonb_build_object('reply', r.reply)
    FROM jsonb_to_recordset(${jsonbText(found)}::jsonb) AS r(id text, reply jsonb) WHERE "ToolCall".id = r.id`
}

/**
 * A call shows in the `message`. While the model still writes its input it is begun by that; its step and the model's id of it
 * come with the journal, and where that was faster only the message is missing. One that waits gets its deadline.
 */
export function shown({ toolCallId, waitMs, writing }: ShownCall): Prisma.Sql {
  if (writing !== undefined) {
    return Prisma.sql`
      INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, "messageId", "spaceId")
      SELECT ${toolCallId}, held."runId", held."agentId", ${NO_STEP}::int, ${toolCallId}, ${writing.toolName},
        ${writing.execution}::"ToolExecution", 'STREAMING', message.id, message."spaceId"
      FROM held, message
      ON CONFLICT (id) DO UPDATE SET "messageId" = EXCLUDED."messageId", "spaceId" = EXCLUDED."spaceId" RETURNING id`
  }
  const waits = waitMs === null ? Prisma.empty : Prisma.sql`, ${waitingFor(waitMs)}`
  return Prisma.sql`
    UPDATE "ToolCall" SET "messageId" = message.id, "spaceId" = message."spaceId" ${waits}
    FROM message WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** By the database's clock, which says when the time is up. */
const waitingFor = (ms: number) =>
  Prisma.sql`status = 'WAITING', "expiresAt" = clock_timestamp() + ${ms} * interval '1 millisecond'`

/** A call that shows nowhere waits for an answer from outside. */
export function waiting(toolCallId: string, waitMs: number): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET ${waitingFor(waitMs)}
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** The calls whose input a dead worker was receiving. */
export function brokenOff(runId: string): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET status = 'CANCELED', "settledAt" = now()
    FROM held WHERE "ToolCall"."runId" = ${runId} AND status = 'STREAMING' RETURNING "ToolCall".id`
}

/** Compare-and-set from WAITING, by an answer or, where `isDue` is asked for, by the database's clock. Null: it waits no more, or still. */
export async function answer(
  tx: Tx,
  toolCallId: string,
  { status, output, error }: Settlement,
  { isDue }: { isDue: boolean },
): Promise<ToolCall | null> {
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, error = ${error},
      "settledAt" = now()
    WHERE id = ${toolCallId} AND status = 'WAITING' AND (NOT ${isDue}::boolean OR "expiresAt" <= now()) RETURNING *`
  return call ?? null
}

/** In the transaction that ends a run otherwise than by itself. What a think cycle asked somebody outside is still answered, to the inbox. */
export async function cancelAll(tx: Tx, { id: runId, triggerType }: Pick<Run, 'id' | 'triggerType'>): Promise<void> {
  const answeredLater = { NOT: { status: 'WAITING' as const, execution: { in: ANSWERED_OUTSIDE } } }
  await tx.toolCall.updateMany({
    where: {
      runId,
      status: { in: ['STREAMING', 'RUNNING', 'WAITING'] },
      ...(triggerType === 'INBOX' ? answeredLater : {}),
    },
    data: { status: 'CANCELED', settledAt: new Date() },
  })
}

/** Of a run that is rolled back nothing stays. */
export async function eraseAll(tx: Tx, runId: string): Promise<void> {
  await tx.toolCall.deleteMany({ where: { runId } })
}

/** The calls that wait, each with its time. */
export const UNANSWERED = Prisma.sql`SELECT id, "expiresAt" AS at FROM "ToolCall" WHERE status = 'WAITING'`

/** A condition on a call: people are asked for a reply to its message. */
const ASKS_PEOPLE = Prisma.sql`(status = 'RUNNING' AND (state#>>'{wait,asksPeople}')::boolean)`

/** A condition: a call that the message shows waits for an answer, or another than `exceptId` asks people for a reply to it. */
export function showsWaiting(messageId: string, exceptId = ''): Prisma.Sql {
  return Prisma.sql`EXISTS (
    SELECT 1 FROM "ToolCall" WHERE "messageId" = ${messageId} AND id <> ${exceptId} AND (status = 'WAITING' OR ${ASKS_PEOPLE}))`
}

/** Whether a call waits for a reply to its message, of people or agents. */
function waitsForReply({ status, state, settledAt }: ToolCall): boolean {
  return status === 'RUNNING' && settledAt === null && (state as { wait?: unknown } | null)?.wait !== undefined
}

/** Whether a message of this human answers a call that waits for a reply. */
function mayReply({ input }: ToolCall, humanId: string): boolean {
  const conditions = (input as { wait?: { for?: WaitCondition[] } } | null)?.wait?.for ?? []
  return conditions.some((one) => isMet(one, { senderId: humanId, kind: 'HUMAN' }))
}

/** Tool calls, as they are read. */
export interface ToolCalls {
  /** What a call waits for: RESULT, that somebody submits; MESSAGE, in its space; null for nobody. */
  waitsFor(call: ToolCall): 'RESULT' | 'MESSAGE' | null
  /** Of each message, the call that waits for a reply to it. */
  waitingByMessage(messageIds: readonly string[]): Promise<Map<string, ToolCall>>
  /** Those that wait for a message which the human may post, oldest first. */
  askingHuman(humanId: string, spaceIds: string[], most: number): Promise<ToolCall[]>
  getMany(ids: string[]): Promise<(ToolCall | null)[]>
  ofRuns(runIds: string[]): Promise<Map<string, ToolCall[]>>
  /** Those that wait and show in one of these spaces, or are EXTERNAL ones of these agents (null: of all); oldest first. */
  waiting(where: { spaceIds: string[] | null; agentIds: string[] | null }, most: number): Promise<ToolCall[]>
}

export function createToolCalls({ db }: Pick<Platform, 'db'>): ToolCalls {
  return {
    async getMany(ids) {
      const rows = await db.prisma.toolCall.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async ofRuns(runIds) {
      const rows = await db.prisma.toolCall.findMany({ where: { runId: { in: runIds } }, orderBy: { id: 'asc' } })
      return Map.groupBy(rows, (row) => row.runId)
    },
    waitsFor: (call) => (call.status === 'WAITING' ? 'RESULT' : waitsForReply(call) ? 'MESSAGE' : null),
    async waitingByMessage(messageIds) {
      const rows = await db.prisma.toolCall.findMany({
        where: { messageId: { in: [...messageIds] }, status: 'RUNNING', execution: null },
        orderBy: { id: 'asc' },
      })
      return new Map(rows.filter(waitsForReply).map((call) => [call.messageId ?? '', call]))
    },
    async askingHuman(humanId, spaceIds, most) {
      const rows = await db.prisma.toolCall.findMany({
        where: { spaceId: { in: spaceIds }, status: 'RUNNING', state: { path: ['wait', 'asksPeople'], equals: true } },
        orderBy: { id: 'asc' },
      })
      return rows.filter((call) => mayReply(call, humanId)).slice(0, most)
    },
    waiting({ spaceIds, agentIds }, most) {
      const external = { execution: 'EXTERNAL' as const, ...(agentIds === null ? {} : { agentId: { in: agentIds } }) }
      const inSpaces = { execution: 'SPACE' as const, ...(spaceIds === null ? {} : { spaceId: { in: spaceIds } }) }
      return db.prisma.toolCall.findMany({
        where: { status: 'WAITING', OR: [inSpaces, external] },
        orderBy: { id: 'asc' },
        take: most,
      })
    },
  }
}

import { Prisma, type Run, type ToolCall, type ToolCallStatus, type ToolExecution } from '../generated/prisma/client.ts'
import { type Json, type JsonObject, jsonbText } from '../lib/json.ts'
import { keyOrdersText } from '../lib/key-orders.ts'
import type { Tx } from '../platform/db.ts'
import { HIDDEN_IF_UNHEARD, IS_LEFT_TO_OTHERS, type NewApproval } from './approval.ts'
import { cancelNoted } from './call-notifications.ts'

// The only writer of ToolCall. What a run writes of its calls are changes for its hold (hold.ts), so that one statement can
// hold them and what they belong to; some read from `message`, the row of the message that shows the call.
//
//   begun ▶ STREAMING ─ recorded ─▶ RUNNING ─ settled ──▶ DONE, FAILED, TIMED_OUT
//   (shows while its   recorded ─▶  │  │                     ▲
//   input is written)         │     │ shown, waiting         │ answered (DONE), or its time is up (TIMED_OUT)
//           │                 ▼     │  └────▶ WAITING ───────┘
//           │           FAILED: no  │            │
//           │  such tool, or no JSON│            │
//           └─ broken off ─▶ CANCELED ◀─ the run's end, but for what a think cycle asked somebody outside
//
// A call that asks for approval first:
//
//   WAITING (PENDING) ─ enough agree ──▶ (APPROVED) WAITING for who answers it outside, as above
//     │   │   └─ its time is up ───▶ TIMED_OUT (EXPIRED)  └▶ RUNNING, `carryAt` set ─ carried ─▶ DONE, FAILED, TIMED_OUT
//     │   └─ somebody denies ──▶ FAILED (DENIED)                    (carrying.ts: by any worker, its run waits or sleeps)
//     └─ the run's end (of a cycle, but where it ends well), or its agent leaves the space ──▶ CANCELED (CANCELED)

/** A tool call as the model made it. */
export interface NewToolCall {
  id: string
  modelCallId: string
  /** One of its agent's tools, or UNKNOWN_TOOL. */
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
  /** What it waits for is a decision. */
  approval?: NewApproval
  /** What is known of a call whose input the model is still writing, `input` being what can be read of it: it is in no journaled step yet. */
  writing?: { toolName: string; execution: ToolExecution | null; input: JsonObject | null }
}

/** What somebody outside the server executes. */
const ANSWERED_OUTSIDE: ToolExecution[] = ['SPACE', 'EXTERNAL']

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
    INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, output, error, state, "settledAt", places, label)
    SELECT c.id, held."runId", held."agentId", ${stepIndex}, c."modelCallId", c."toolName", c.execution::"ToolExecution",
      c.status::"ToolCallStatus", c.input, CASE c.status WHEN 'FAILED' THEN c.output END, c.error, c.state, CASE c.status WHEN 'FAILED' THEN now() END,
      held."runPlaces", held."runLabel"
    FROM held, jsonb_to_recordset(${jsonbText(calls)}::jsonb) AS c(id text, "modelCallId" text, "toolName" text,
      execution text, status text, input jsonb, output jsonb, error text, state jsonb)
    ON CONFLICT (id) DO UPDATE SET "stepIndex" = EXCLUDED."stepIndex", "modelCallId" = EXCLUDED."modelCallId",
      status = EXCLUDED.status, input = EXCLUDED.input, output = EXCLUDED.output, error = EXCLUDED.error, state = EXCLUDED.state,
      "settledAt" = EXCLUDED."settledAt", places = EXCLUDED.places, label = EXCLUDED.label
    RETURNING id`
}

/** What is set of a call by what came of it. */
export const endedWith = ({ status, output, error }: Settlement): Prisma.Sql => Prisma.sql`
  status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, "outputKeyOrders" = ${keyOrdersText(output)}::jsonb,
  error = ${error}, "settledAt" = now()`

/** A result. `source`: whose row there must be for it. */
export function settled(toolCallId: string, settlement: Settlement, source: 'held' | 'message' = 'held'): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET ${endedWith(settlement)}
    FROM ${Prisma.raw(source)} WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** A result of a call that shows nowhere any more. */
export function withdrawn(toolCallId: string, settlement: Settlement): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET ${endedWith(settlement)}, "messageId" = NULL, "spaceId" = NULL
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
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
export function shown({ toolCallId, waitMs, approval, writing }: ShownCall): Prisma.Sql {
  if (writing !== undefined) {
    return Prisma.sql`
      INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, "messageId", "spaceId")
      SELECT ${toolCallId}, held."runId", held."agentId", ${NO_STEP}::int, ${toolCallId}, ${writing.toolName},
        ${writing.execution}::"ToolExecution", 'STREAMING',
        ${writing.input === null ? null : jsonbText(writing.input)}::jsonb, message.id, message."spaceId"
      FROM held, message
      ON CONFLICT (id) DO UPDATE SET "messageId" = EXCLUDED."messageId", "spaceId" = EXCLUDED."spaceId" RETURNING id`
  }
  const waits = waitMs === null ? Prisma.empty : Prisma.sql`, ${waitingFor({ waitMs, approval })}`
  return Prisma.sql`
    UPDATE "ToolCall" SET "messageId" = message.id, "spaceId" = message."spaceId" ${waits}
    FROM message WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".*`
}

/** What is written so far of the input of a call that shows: none once it is in the journal. */
export function written(toolCallId: string, input: Json): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET input = ${jsonbText(input)}::jsonb
    FROM held WHERE "ToolCall".id = ${toolCallId} AND status = 'STREAMING' RETURNING "ToolCall".id`
}

/** What a call waits for, and how long. */
export type NewWait = Pick<ShownCall, 'approval'> & { waitMs: number }

/** By the database's clock, which says when the time is up. */
function waitingFor({ waitMs, approval }: NewWait): Prisma.Sql {
  const until = Prisma.sql`now() + ${waitMs} * interval '1 millisecond'`
  const waits = Prisma.sql`status = 'WAITING', "expiresAt" = ${until}`
  if (approval === undefined) return waits
  const { approverIds, escalateToIds, expiresInSeconds: _, escalateAfterSeconds, ...terms } = approval
  return Prisma.sql`${waits}, approval = ${jsonbText(terms)}::jsonb, "approvalState" = 'PENDING', "approvalExpiresAt" = ${until},
    "approverIds" = ${approverIds}::text[], "escalateToIds" = ${escalateToIds}::text[], "inputDigest" = ${terms.writtenDigest},
    "escalatesAt" = now() + ${escalateAfterSeconds}::int * interval '1 second'`
}

/** A call that shows nowhere waits for somebody outside the run. */
export function waiting(toolCallId: string, wait: NewWait): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET ${waitingFor(wait)}
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".*`
}

/** The calls whose input a dead worker was receiving. */
export function brokenOff(runId: string): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET status = 'CANCELED', "settledAt" = now()
    FROM held WHERE "ToolCall"."runId" = ${runId} AND status = 'STREAMING' RETURNING "ToolCall".id`
}

/** Who submits a result; both null for an admin, or where nobody does. */
export interface Answerer {
  humanId: string | null
  serviceName: string | null
}

export interface HowAnswered {
  /** Only one whose time is up, by the database's clock. */
  isDue?: boolean
  by?: Answerer
  /** What its approval comes to by that: of one that waits for a decision; absent, of one that waits for its result. */
  decided?: 'DENIED' | 'EXPIRED' | 'CANCELED'
}

/** Compare-and-set from WAITING. Null: it waits no more, or still, or for something else. */
export async function answer(
  tx: Tx,
  toolCallId: string,
  settlement: Settlement,
  { isDue = false, by, decided }: HowAnswered,
): Promise<ToolCall | null> {
  const approvalState = decided === undefined ? Prisma.sql`"approvalState"` : Prisma.sql`${decided}::"ApprovalState"`
  const isAsked = Prisma.sql`"approvalState" IS NOT DISTINCT FROM 'PENDING'`
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET ${endedWith(settlement)}, "approvalState" = ${approvalState}, "escalatesAt" = NULL, ${HIDDEN_IF_UNHEARD},
      "answeredById" = ${by?.humanId ?? null}, "answeredByService" = ${by?.serviceName ?? null}
    WHERE id = ${toolCallId} AND status = 'WAITING' AND (NOT ${isDue}::boolean OR "expiresAt" <= now())
      AND ${decided === undefined ? Prisma.sql`NOT ${isAsked}` : isAsked} RETURNING *`
  return call ?? null
}

/** Under a lock on a PENDING call: its input is this now. */
export async function edited(tx: Tx, toolCallId: string, input: Json, inputDigest: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET input = ${jsonbText(input)}::jsonb, "inputDigest" = ${inputDigest},
      approval = approval || jsonb_build_object('edits', coalesce((approval->>'edits')::int, 0) + 1)
    WHERE id = ${toolCallId}`
}

/** Under a lock on a PENDING call: enough have agreed. It waits for its result for `answerMs`, or, null, to be carried out. */
export async function approved(tx: Tx, toolCallId: string, answerMs: number | null): Promise<ToolCall | null> {
  const next =
    answerMs === null
      ? Prisma.sql`status = 'RUNNING', "expiresAt" = NULL, "carryAt" = now()`
      : Prisma.sql`"expiresAt" = clock_timestamp() + ${answerMs} * interval '1 millisecond'`
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET "approvalState" = 'APPROVED', "escalatesAt" = NULL, ${next}
    WHERE id = ${toolCallId} AND status = 'WAITING' AND "approvalState" = 'PENDING' RETURNING *`
  return call ?? null
}

/** Those to whom it is escalated may decide too from now on. Null: it is not pending, or escalated already, or nobody is left. */
export async function escalated(tx: Tx, toolCallId: string, { isDue }: { isDue: boolean }): Promise<ToolCall | null> {
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET "escalatedAt" = now(), "escalatesAt" = NULL
    WHERE id = ${toolCallId} AND status = 'WAITING' AND "approvalState" = 'PENDING' AND "escalatesAt" IS NOT NULL
      AND (NOT ${isDue}::boolean OR "escalatesAt" <= now()) RETURNING *`
  return call ?? null
}

/** Under a lock on a call that waits: who sees to it; null for nobody. */
export function claimed(tx: Tx, toolCallId: string, humanId: string | null): Promise<ToolCall> {
  const data = { claimedById: humanId, claimChanges: { increment: 1 } }
  return tx.toolCall.update({ where: { id: toolCallId }, data })
}

/** What is set of a call that nobody carries out, answers or decides any more. */
export const CANCELED = Prisma.sql`status = 'CANCELED', "settledAt" = now(), "escalatesAt" = NULL, "carryAt" = NULL,
  "approvalState" = CASE "approvalState" WHEN 'PENDING' THEN 'CANCELED' ELSE "approvalState" END`

/**
 * In the transaction that ends a run otherwise than by itself. What a think cycle asked somebody outside is still answered, to the
 * inbox, unless the cycle is GONE, and what people approved is carried out; what it asked people to decide is not, and told so.
 */
export async function cancelAll(
  tx: Tx,
  { id: runId, triggerType, stopReason }: Pick<Run, 'id' | 'triggerType' | 'stopReason'>,
): Promise<void> {
  const isAnsweredLater =
    triggerType === 'INBOX' && stopReason !== 'GONE'
      ? Prisma.sql`"carryAt" IS NOT NULL OR (status = 'WAITING' AND execution = ANY(${ANSWERED_OUTSIDE}::"ToolExecution"[])
        AND "approvalState" IS DISTINCT FROM 'PENDING')`
      : Prisma.sql`false`
  await tx.$executeRaw`
    WITH canceled AS (
      UPDATE "ToolCall" SET ${CANCELED}
      WHERE "runId" = ${runId} AND status IN ('STREAMING', 'RUNNING', 'WAITING') AND NOT (${isAnsweredLater}) RETURNING *
    ) ${cancelNoted('canceled')}`
}

/** Of a run that is rolled back nothing stays. */
export async function eraseAll(tx: Tx, runId: string): Promise<void> {
  await tx.toolCall.deleteMany({ where: { runId } })
}

/** The calls that wait, each with its time. */
export const UNANSWERED = Prisma.sql`SELECT id, "expiresAt" AS at FROM "ToolCall" WHERE status = 'WAITING'`

/** A condition on a call: people are asked for a reply to its message. */
const ASKS_PEOPLE = Prisma.sql`(status = 'RUNNING' AND (state#>>'{wait,asksPeople}')::boolean)`

/** A condition: a call that the message shows waits for somebody outside its run, or another than `exceptId` asks people for a reply to it. */
export function showsWaiting(messageId: string, exceptId = ''): Prisma.Sql {
  return Prisma.sql`EXISTS (
    SELECT 1 FROM "ToolCall" WHERE "messageId" = ${messageId} AND id <> ${exceptId} AND (${IS_LEFT_TO_OTHERS} OR ${ASKS_PEOPLE}))`
}

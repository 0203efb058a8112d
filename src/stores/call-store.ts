import { LABEL_NOW } from '../confidentiality/marks.ts'
import { isHeardIn } from '../confidentiality/world.ts'
import { Prisma, type Run, type ToolCall, type ToolCallStatus, type ToolExecution } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { EXECUTE_CALL } from '../jobs/queues.ts'
import { ASK_REMOTE_AGENT } from '../lib/foreign-model.ts'
import { type Json, type JsonObject, jsonbText } from '../lib/json.ts'
import { keyOrdersText } from '../lib/key-orders.ts'
import type { ResultFile } from '../lib/tool-file.ts'
import type { Changes } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import type { NewApproval } from '../rules/approvals.ts'
import { EXECUTIONS_OUTSIDE } from '../rules/call-answers.ts'
import type { SettledCallStatus } from '../rules/statuses.ts'
import { cancelNoticesSql } from './call-notices.ts'
import { changeCallSql } from './change-store.ts'
import { insertFilesOfCallSql, type NewFile } from './file-store.ts'
import { ENDED_RUNS_SQL, OPEN_CALLS_SQL } from './status-sql.ts'

// Writes the table "ToolCall". Functions whose name ends in `Sql` return a part of a larger statement, usually a CTE. For a
// write by a run, the caller passes the CTE to the run's hold (runs/hold.ts), which fences the write. Some CTEs read
// from the CTE `message`, which contains the message that shows the call. All other functions execute one statement in `tx`.
//
//   showCallSql ▶ STREAMING ─ recordCallsSql ─▶ RUNNING ─ settleCall ──▶ DONE, FAILED, TIMED_OUT
//   (while the input       recordCallsSql ─▶    │  │                           ▲
//   streams)                      │             │ showCallSql,                │ settleWaitingCall: answered (DONE), or past
//           │                     ▼             │ awaitAnswerSql              │ its deadline (TIMED_OUT)
//           │     FAILED: unknown tool,         │  └────▶ WAITING ────────────┘
//           │     or the input is not JSON       │            │
//           └─ stream broke off ──▶ CANCELED ◀─ end of the run, except external calls of a think cycle
//
// A call that needs approval first:
//
//   WAITING (PENDING) ─ approveCall ──▶ (APPROVED) WAITING for an external result, as above
//     │   │   └─ deadline ───▶ TIMED_OUT (EXPIRED)   └▶ RUNNING with `carryAt` ─ settleApprovedCall ─▶ DONE, FAILED,
//     │   └─ a denial ──▶ FAILED (DENIED)              TIMED_OUT (by a job, while the run waits or is over)
//     └─ end of the run (of a cycle: unless it completes), or its agent leaves the space ──▶ CANCELED (CANCELED)

/** A tool call that the model generated. */
export interface NewToolCall {
  id: string
  modelCallId: string
  /** The name of one of the agent's tools, or UNKNOWN_TOOL. */
  toolName: string
  execution: ToolExecution | null
  /** FAILED if the tool does not exist, or if the input was not JSON. */
  status: Extract<ToolCallStatus, 'RUNNING' | 'FAILED'>
  input: Json
  output: Json
  error: string | null
  /** State that must survive a crash. Initially, it contains only which message shows the call. */
  state: Json
}

/** The result of a tool call. */
export interface Settlement {
  /** CANCELED means that the model did not finish the input. */
  status: SettledCallStatus
  output: Json
  error: string | null
  /** The files of the result: bytes for models, and references to stored files. `output` describes the files. */
  files?: readonly ResultFile[]
  /** The stored files of the result. Their rows are written together with the result. */
  kept?: readonly NewFile[]
}

/**
 * A tool call that a message shows as a part. Its input is still streaming, the call is running, or the call waits
 * until a deadline.
 */
export interface ShownCall {
  toolCallId: string
  waitMs: number | null
  /** Set if the call needs approval. */
  approval?: NewApproval
  /**
   * Set if the input of the call is still streaming, so that the journal does not contain the call yet. `input` is
   * the part of the input that has been parsed so far.
   */
  writing?: { toolName: string; execution: ToolExecution | null; input: JsonObject | null }
}

/** The step index of a call that is not in the journal, because its input is still streaming or was interrupted. */
const NO_STEP = -1

/** Whether the journal contains a call, as part of a finished generation. */
export function isJournaled({ stepIndex }: Pick<ToolCall, 'stepIndex'>): boolean {
  return stepIndex !== NO_STEP
}

/** Inserts the calls of a finished generation. If a message already shows a call, its row exists and is updated. */
export function recordCallsSql(stepIndex: number, calls: NewToolCall[]): Prisma.Sql {
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

/** SQL condition: a call waits for an answer from outside its run, or for the job that executes it. */
export const WAITS_OUTSIDE_RUN_SQL = Prisma.sql`(status = 'WAITING' OR "carryAt" IS NOT NULL)`

/**
 * SQL assignment for an UPDATE that stores the result of a waiting call. Hides the result in the space if a current
 * member may not read the sources of the call, for example because the member has joined since. A result that a
 * member submitted in the space itself stays visible.
 */
const HIDE_UNREADABLE_OUTPUT_SQL = Prisma.sql`approval = CASE
  WHEN "spaceId" IS NULL OR execution = 'SPACE' OR ${isHeardIn(Prisma.sql`"ToolCall"."spaceId"`, Prisma.sql`places || label`)} THEN approval
  ELSE coalesce(approval, '{}') || '{"hidesOutput": true}' END`

/** Assignments for the columns of a call that is being settled. */
const settlementSql = ({ status, output, error, files = [] }: Settlement): Prisma.Sql => Prisma.sql`
  status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, "outputKeyOrders" = ${keyOrdersText(output)}::jsonb,
  error = ${error}, files = ${files.length === 0 ? null : jsonbText(files)}::jsonb, "settledAt" = now()`

/** Settles a call in the CTE `result`, and inserts its files. `source`: the name of the CTE that must return a row. */
export function settleCall(
  toolCallId: string,
  settlement: Settlement,
  source: 'held' | 'message' = 'held',
): Changes & { result: Prisma.Sql } {
  const result = Prisma.sql`
    UPDATE "ToolCall" SET ${settlementSql(settlement)}
    FROM ${Prisma.raw(source)} WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
  return { result, ...filesOf(settlement) }
}

/** Settles a call as `settleCall` does, and also removes the call from its message. */
export function withdrawCall(toolCallId: string, settlement: Settlement): Changes & { result: Prisma.Sql } {
  const result = Prisma.sql`
    UPDATE "ToolCall" SET ${settlementSql(settlement)}, "messageId" = NULL, "spaceId" = NULL
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
  return { result, ...filesOf(settlement) }
}

const filesOf = ({ kept = [] }: Settlement, call = 'result'): Changes =>
  kept.length === 0 ? {} : insertFilesOfCallSql(kept, call)

/** Stores the state of a call. */
export function saveCallStateSql(toolCallId: string, state: Json): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/**
 * A message to an agent on another server, stored as `remote` in the state of its call. It is stored before the
 * message is sent. A call that is repeated after a crash therefore finds the task that it has started.
 */
export interface RemoteCall {
  /** The name of the model. It identifies the remote agent. */
  model: string
  /** The URL of the agent. */
  url: string
  /**
   * The space and thread in which the conversation with the remote agent takes place; null if the call is not part of
   * a conversation.
   */
  place: string | null
  messageId: string
  contextId: string | null
  /**
   * The task with the question that this message answers. Null if the message does not answer a question; absent in
   * calls of earlier versions.
   */
  continues?: string | null
  /** The id of the task that was started or continued; null until the other server has returned the id. */
  taskId: string | null
}

/**
 * Stores `remote` in the state of a call that is being executed. Returns false if the call has ended, or if a later
 * attempt of the run executes the call.
 */
export async function rememberRemoteCall(
  tx: Pick<Tx, '$executeRaw'>,
  { callId, attempt }: { callId: string; attempt: number | null },
  remote: RemoteCall,
): Promise<boolean> {
  const written = await tx.$executeRaw`
    UPDATE "ToolCall" c SET state = coalesce(CASE jsonb_typeof(c.state) WHEN 'object' THEN c.state END, '{}') || ${jsonbText({ remote })}::jsonb
    WHERE c.id = ${callId} AND c.status = 'RUNNING' AND (${attempt}::int IS NULL
      OR EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId" AND r.attempt = ${attempt} AND r.status = 'RUNNING'))`
  return written > 0
}

/** Returns a call to an agent on another server, and the previous call in the same conversation. */
export async function readRemoteCall(
  tx: Pick<Tx, '$queryRaw'>,
  callId: string,
): Promise<{ remote: RemoteCall | null; place: string | null; last: RemoteCall | null } | null> {
  const [row] = await tx.$queryRaw<{ remote: RemoteCall | null; place: string | null; last: RemoteCall | null }[]>`
    SELECT c.state->'remote' AS remote, p.place, (
      SELECT b.state->'remote' FROM "ToolCall" b
      WHERE b."agentId" = c."agentId" AND b."toolName" = ${ASK_REMOTE_AGENT} AND b.id < c.id AND b.state->'remote'->>'place' = p.place
      ORDER BY b.id DESC LIMIT 1) AS last
    FROM "ToolCall" c JOIN "Run" r ON r.id = c."runId"
      CROSS JOIN LATERAL (SELECT r."triggerSpaceId" || coalesce('/' || r."threadRootId", '') AS place) p
    WHERE c.id = ${callId}`
  return row ?? null
}

/** Returns the calls of a run that may have started a task on another server. */
export async function remoteCallsOf(tx: Pick<Tx, '$queryRaw'>, runId: string): Promise<{ id: string }[]> {
  return tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "ToolCall" WHERE "runId" = ${runId} AND "toolName" = ${ASK_REMOTE_AGENT} AND jsonb_exists(state, 'remote')`
}

/** A RUNNING call that waits for a reply to its message. */
export interface AskingCall {
  toolCallId: string
  /** The `WaitState`, together with other state of the call. */
  state: Json
  waitMs: number
}

/** Makes a call wait for a reply to the message that the CTE `message` returns. */
export function awaitReplySql({ toolCallId, state, waitMs }: AskingCall): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb, "messageId" = message.id, "spaceId" = message."spaceId",
      "expiresAt" = clock_timestamp() + ${waitMs} * interval '1 millisecond'
    FROM message WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** Stores replies in the rows of the waiting calls. The calls' runs find them at the next lookup. */
export async function storeReplies(tx: Tx, found: { id: string; reply: object }[]): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET state = state || jsonb_build_object('reply', r.reply)
    FROM jsonb_to_recordset(${jsonbText(found)}::jsonb) AS r(id text, reply jsonb) WHERE "ToolCall".id = r.id`
}

/**
 * Shows a call in the message that the CTE `message` returns. If the call's input is still streaming, inserts the
 * call unless its row already exists. Sets the deadline of a waiting call.
 */
export function showCallSql({ toolCallId, waitMs, approval, writing }: ShownCall): Prisma.Sql {
  if (writing !== undefined) {
    return Prisma.sql`
      INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, "messageId", "spaceId")
      SELECT ${toolCallId}, held."runId", held."agentId", ${NO_STEP}::int, ${toolCallId}, ${writing.toolName},
        ${writing.execution}::"ToolExecution", 'STREAMING',
        ${writing.input === null ? null : jsonbText(writing.input)}::jsonb, message.id, message."spaceId"
      FROM held, message
      ON CONFLICT (id) DO UPDATE SET "messageId" = EXCLUDED."messageId", "spaceId" = EXCLUDED."spaceId" RETURNING id`
  }
  const waits = waitMs === null ? Prisma.empty : Prisma.sql`, ${waitSql({ waitMs, approval })}`
  return Prisma.sql`
    UPDATE "ToolCall" SET "messageId" = message.id, "spaceId" = message."spaceId" ${waits}
    FROM message WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".*`
}

/** Updates the streamed input of a call that a message shows. Has no effect once the journal contains the call. */
export function writeInputSql(toolCallId: string, input: Json): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET input = ${jsonbText(input)}::jsonb
    FROM held WHERE "ToolCall".id = ${toolCallId} AND status = 'STREAMING' RETURNING "ToolCall".id`
}

/** The approval or answer for which a call waits, and the maximum duration of the wait. */
export type NewWait = Pick<ShownCall, 'approval'> & { waitMs: number }

/**
 * Returns the assignments for a wait. The clock of the database sets the deadline, and also decides whether the
 * deadline has passed.
 */
function waitSql({ waitMs, approval }: NewWait): Prisma.Sql {
  const until = Prisma.sql`now() + ${waitMs} * interval '1 millisecond'`
  const waits = Prisma.sql`status = 'WAITING', "expiresAt" = ${until}`
  if (approval === undefined) return waits
  const { approverIds, escalateToIds, expiresInSeconds: _, escalateAfterSeconds, ...terms } = approval
  return Prisma.sql`${waits}, approval = ${jsonbText(terms)}::jsonb, "approvalState" = 'PENDING', "approvalExpiresAt" = ${until},
    "approverIds" = ${approverIds}::text[], "escalateToIds" = ${escalateToIds}::text[], "inputDigest" = ${terms.writtenDigest},
    "escalatesAt" = now() + ${escalateAfterSeconds}::int * interval '1 second'`
}

/** Makes a call that has no message in a space wait for an answer from outside the run. */
export function awaitAnswerSql(toolCallId: string, wait: NewWait): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET ${waitSql(wait)}
    FROM held WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".*`
}

/** Makes a locked PENDING call wait for a different approval than before. */
export async function askAgain(tx: Tx, toolCallId: string, approval: NewApproval): Promise<ChangedCall> {
  const wait = waitSql({ waitMs: approval.expiresInSeconds * 1000, approval })
  const [call] = await tx.$queryRaw<ChangedCall[]>(
    changeCallSql(Prisma.sql`UPDATE "ToolCall" SET ${wait} WHERE id = ${toolCallId}`),
  )
  if (call === undefined) throw new Error(`the call ${toolCallId} was not locked`)
  return call
}

/** Returns the calls that wait until a person has connected their account at an MCP server of the agent. */
export async function readConnecting(
  tx: Tx,
  { agentId, serverName, humanId }: { agentId: string; serverName: string; humanId: string },
): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "ToolCall" WHERE "agentId" = ${agentId} AND status = 'WAITING' AND "approvalState" = 'PENDING'
      AND approval#>>'{connects,serverName}' = ${serverName} AND "approverIds" = ${[humanId]}::text[] ORDER BY id`
  return rows.map(({ id }) => id)
}

/** Returns the authorizations of people, started or completed, for which calls are waiting. The order is random. */
export function readAwaitedAuthorizations(
  tx: Tx,
): Promise<{ agentId: string; name: string; url: string; humanId: string }[]> {
  return tx.$queryRaw`
    SELECT * FROM (
      SELECT DISTINCT p."agentId", p.name, p.url, p."humanId" FROM "ToolCall" c JOIN "McpPersonAuthorization" p
        ON p."agentId" = c."agentId" AND p.name = c.approval#>>'{connects,serverName}' AND c."approverIds" = ARRAY[p."humanId"]::text[]
      WHERE c.status = 'WAITING' AND c."approvalState" = 'PENDING') awaited
    ORDER BY random() LIMIT 200`
}

/** Cancels the calls whose input a worker was streaming when it died. */
export function cancelStreamingCallsSql(runId: string): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET status = 'CANCELED', "settledAt" = now()
    FROM held WHERE "ToolCall"."runId" = ${runId} AND status = 'STREAMING' RETURNING "ToolCall".id`
}

/** Records that a standing grant has approved a call, so that no person is asked. The CTE `used` returns the grant. */
export function letThroughSql(
  toolCallId: string,
  { hidesOutput, grantDigest = null }: Pick<NewApproval, 'hidesOutput' | 'grantDigest'>,
): Prisma.Sql {
  return Prisma.sql`
    UPDATE "ToolCall" SET "grantId" = used.id, approval = ${jsonbText({ hidesOutput, grantDigest })}::jsonb
    FROM used WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

/** A call after a change. `change` is the key of the job that publishes the change (change-store.ts). */
export type ChangedCall = ToolCall & { change: string }

/** The human or service that submits a result. Both are null for an admin, and for results that nobody submits. */
export interface Answerer {
  humanId: string | null
  serviceName: string | null
}

export interface SettleWaitingOptions {
  /** If true, settles the call only if its deadline has passed by the clock of the database. */
  isDue?: boolean
  by?: Answerer
  /** The new approval state of a call that waits for approval; absent for a call that waits for its result. */
  decided?: 'DENIED' | 'EXPIRED' | 'CANCELED'
}

/**
 * Settles a call by a compare-and-set that requires the status WAITING. Returns null if the call does not wait, is
 * not due, or waits for something else.
 */
export async function settleWaitingCall(
  tx: Tx,
  toolCallId: string,
  settlement: Settlement,
  { isDue = false, by, decided }: SettleWaitingOptions,
): Promise<ChangedCall | null> {
  const approvalState = decided === undefined ? Prisma.sql`"approvalState"` : Prisma.sql`${decided}::"ApprovalState"`
  const isAsked = Prisma.sql`"approvalState" IS NOT DISTINCT FROM 'PENDING'`
  const update = Prisma.sql`
    UPDATE "ToolCall" SET ${settlementSql(settlement)}, "approvalState" = ${approvalState}, "escalatesAt" = NULL, ${HIDE_UNREADABLE_OUTPUT_SQL},
      "answeredById" = ${by?.humanId ?? null}, "answeredByService" = ${by?.serviceName ?? null}
    WHERE id = ${toolCallId} AND status = 'WAITING' AND (NOT ${isDue}::boolean OR "expiresAt" <= now())
      AND ${decided === undefined ? Prisma.sql`NOT ${isAsked}` : isAsked}`
  const [call] = await tx.$queryRaw<ChangedCall[]>(changeCallSql(update))
  return call ?? null
}

/** Sets the input of a locked PENDING call. */
export async function editInput(tx: Tx, toolCallId: string, input: Json, inputDigest: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET input = ${jsonbText(input)}::jsonb, "inputDigest" = ${inputDigest},
      approval = approval || jsonb_build_object('edits', coalesce((approval->>'edits')::int, 0) + 1)
    WHERE id = ${toolCallId}`
}

/**
 * Approves a locked PENDING call. The call then waits up to `answerMs` milliseconds for its result. If `answerMs` is
 * null, a job executes the call.
 */
export async function approveCall(tx: Tx, toolCallId: string, answerMs: number | null): Promise<ChangedCall | null> {
  const next =
    answerMs === null
      ? Prisma.sql`status = 'RUNNING', "expiresAt" = NULL, "carryAt" = ${BY_JOB_SQL}`
      : Prisma.sql`"expiresAt" = clock_timestamp() + ${answerMs} * interval '1 millisecond'`
  const update = Prisma.sql`
    UPDATE "ToolCall" SET "approvalState" = 'APPROVED', "escalatesAt" = NULL, ${next}
    WHERE id = ${toolCallId} AND status = 'WAITING' AND "approvalState" = 'PENDING'`
  const [call] = await tx.$queryRaw<ChangedCall[]>(changeCallSql(update, { execution: enqueueExecutionSql }))
  return call ?? null
}

/**
 * Escalates a call, so that its escalation contacts may also decide. Returns null if the call is not pending or has
 * no escalation contacts.
 */
export async function escalateCall(
  tx: Tx,
  toolCallId: string,
  { isDue }: { isDue: boolean },
): Promise<ChangedCall | null> {
  const update = Prisma.sql`
    UPDATE "ToolCall" SET "escalatedAt" = now(), "escalatesAt" = NULL
    WHERE id = ${toolCallId} AND status = 'WAITING' AND "approvalState" = 'PENDING' AND "escalatesAt" IS NOT NULL
      AND (NOT ${isDue}::boolean OR "escalatesAt" <= now())`
  const [call] = await tx.$queryRaw<ChangedCall[]>(changeCallSql(update))
  return call ?? null
}

/** Sets the human who has claimed a locked waiting call; null releases the call. */
export async function setClaimer(tx: Tx, toolCallId: string, humanId: string | null): Promise<ChangedCall> {
  const update = Prisma.sql`
    UPDATE "ToolCall" SET "claimedById" = ${humanId}, "claimChanges" = "claimChanges" + 1 WHERE id = ${toolCallId}`
  const [call] = await tx.$queryRaw<ChangedCall[]>(changeCallSql(update))
  if (call === undefined) throw new Error(`the call ${toolCallId} was not locked`)
  return call
}

/** Assignments for the columns of a call that is being canceled. */
const CANCELED_COLUMNS_SQL = Prisma.sql`status = 'CANCELED', "settledAt" = now(), "escalatesAt" = NULL, "carryAt" = NULL,
  "approvalState" = CASE "approvalState" WHEN 'PENDING' THEN 'CANCELED' ELSE "approvalState" END`

/**
 * Cancels the open calls of a run, in the transaction that ends the run as CANCELED or FAILED. If a think cycle ends
 * for another reason than GONE, two kinds of calls stay open. Calls that wait for an external result later deliver it
 * to the inbox, and approved calls are still executed. Pending approvals are canceled, and the agent's `notifyUrl` is
 * notified.
 */
export async function cancelCallsOfRun(
  tx: Tx,
  { id: runId, triggerType, stopReason }: Pick<Run, 'id' | 'triggerType' | 'stopReason'>,
): Promise<void> {
  const isAnsweredLater =
    triggerType === 'INBOX' && stopReason !== 'GONE'
      ? Prisma.sql`"carryAt" IS NOT NULL OR (status = 'WAITING' AND execution = ANY(${[...EXECUTIONS_OUTSIDE]}::"ToolExecution"[])
        AND "approvalState" IS DISTINCT FROM 'PENDING')`
      : Prisma.sql`false`
  await tx.$executeRaw`
    WITH canceled AS (
      UPDATE "ToolCall" SET ${CANCELED_COLUMNS_SQL}
      WHERE "runId" = ${runId} AND status IN ${OPEN_CALLS_SQL} AND NOT (${isAnsweredLater}) RETURNING *
    ) ${cancelNoticesSql('canceled')}`
}

/** Deletes the calls of a run that is being erased. */
export async function deleteCallsOfRun(tx: Tx, runId: string): Promise<void> {
  await tx.toolCall.deleteMany({ where: { runId } })
}

/** Selects the waiting calls with their deadlines. */
export const CALL_DEADLINES_SQL = Prisma.sql`SELECT id, "expiresAt" AS at FROM "ToolCall" WHERE status = 'WAITING'`

/** Selects the calls whose approval will be escalated, with the time of the escalation. */
export const CALL_ESCALATIONS_SQL = Prisma.sql`SELECT id, "escalatesAt" AS at FROM "ToolCall" WHERE "escalatesAt" IS NOT NULL`

/** SQL condition on a call: the call waits for a reply from humans. */
const AWAITS_PEOPLE_SQL = Prisma.sql`(status = 'RUNNING' AND (state#>>'{wait,asksPeople}')::boolean)`

/**
 * SQL condition: the message shows a call that waits for an answer from outside its run, or a call other than
 * `exceptId` that waits for a reply from humans.
 */
export function showsWaitingCallSql(messageId: string, exceptId = ''): Prisma.Sql {
  return Prisma.sql`EXISTS (
    SELECT 1 FROM "ToolCall" WHERE "messageId" = ${messageId} AND id <> ${exceptId} AND (${WAITS_OUTSIDE_RUN_SQL} OR ${AWAITS_PEOPLE_SQL}))`
}

/**
 * The value of `carryAt` for an approved call that a job executes. Processes of versions before 0.3 claim an approved
 * call at the time `carryAt`, so this value prevents them from claiming the call.
 */
const BY_JOB_SQL = Prisma.sql`'9999-01-01Z'::timestamptz`

/** SQL condition: people approved the call, and its job executes the call. */
const IS_EXECUTED_BY_JOB_SQL = Prisma.sql`status = 'RUNNING' AND "carryAt" IS NOT NULL`

/** Enqueues jobs that execute the approved calls that the CTE `changed` returns. */
const enqueueExecutionSql = enqueueSql(
  EXECUTE_CALL,
  Prisma.sql`SELECT id AS key, id AS subject, jsonb_build_object('toolCallId', id) AS data FROM changed WHERE "carryAt" IS NOT NULL`,
)

/**
 * Returns an approved call for execution. Also updates its label, because a space may have become confidential since
 * the call was made. Returns null if the call was canceled or is already settled.
 */
export async function readApprovedCall(tx: Tx, toolCallId: string): Promise<ToolCall | null> {
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET ${LABEL_NOW} WHERE id = ${toolCallId} AND ${IS_EXECUTED_BY_JOB_SQL} RETURNING *`
  return call ?? null
}

/** Stores the result of an approved call. Returns null if the call was canceled or is already settled. */
export async function settleApprovedCall(
  tx: Tx,
  toolCallId: string,
  settlement: Settlement,
): Promise<ChangedCall | null> {
  const update = Prisma.sql`
    UPDATE "ToolCall" SET ${settlementSql(settlement)}, "carryAt" = NULL, ${HIDE_UNREADABLE_OUTPUT_SQL}
    WHERE id = ${toolCallId} AND ${IS_EXECUTED_BY_JOB_SQL}`
  const [call] = await tx.$queryRaw<ChangedCall[]>(changeCallSql(update, filesOf(settlement, 'changed')))
  return call ?? null
}

/**
 * Enqueues jobs for approved calls that processes of versions before 0.3 should have executed, except calls that such
 * a process is executing now.
 */
export async function adoptApprovedCalls(tx: Tx): Promise<void> {
  await tx.$executeRaw`
    WITH changed AS (
      UPDATE "ToolCall" SET "carryAt" = ${BY_JOB_SQL}
      WHERE id IN (SELECT id FROM "ToolCall" WHERE "carryAt" <= clock_timestamp() AND status = 'RUNNING' FOR NO KEY UPDATE SKIP LOCKED)
      RETURNING *
    ) ${enqueueExecutionSql}`
}

/** Cancels the waiting calls of a deleted agent whose runs have ended. */
export function cancelCallsOfAgent(tx: Tx, agentId: string): Promise<ChangedCall[]> {
  const ended = Prisma.sql`SELECT r.id FROM "Run" r WHERE r."agentId" = ${agentId} AND r.status IN ${ENDED_RUNS_SQL}`
  const update = Prisma.sql`
    UPDATE "ToolCall" c SET ${CANCELED_COLUMNS_SQL}
    WHERE c."agentId" = ${agentId} AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL) AND c."runId" IN (${ended})`
  return tx.$queryRaw<ChangedCall[]>(changeCallSql(update))
}

/** Makes calls that wait in a deleted space time out, by setting their deadline to the current time. */
export async function expireCallsOfSpace(tx: Tx, spaceId: string): Promise<void> {
  await tx.$executeRaw`UPDATE "ToolCall" SET "expiresAt" = now() WHERE "spaceId" = ${spaceId} AND status = 'WAITING'`
}

/** Hides the settled calls of deleted messages. Only their runs show them afterwards. */
export async function hideCallsOfMessages(tx: Tx, messageIds: readonly string[]): Promise<void> {
  await tx.toolCall.updateMany({
    where: { messageId: { in: [...messageIds] } },
    data: { messageId: null, spaceId: null },
  })
}

/** Removes the content of deleted files from the results of calls that have read them. */
export async function forgetReadFiles(tx: Tx, fileIds: readonly string[]): Promise<void> {
  if (fileIds.length === 0) return
  await tx.$executeRaw`
    UPDATE "ToolCall" SET output = CASE WHEN output IS NULL THEN NULL ELSE '{"note":"The file was deleted."}'::jsonb END,
      "outputKeyOrders" = NULL, files = NULL
    WHERE "toolName" IN ('read_file', 'readFile') AND input->>'fileId' = ANY(${[...fileIds]}::text[])`
}

/** Returns a CTE that deletes the calls of deleted runs, except calls that a message shows. */
export function deleteCallsOfRunsSql(runIds: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    DELETE FROM "ToolCall" c WHERE c."runId" IN (${runIds})
      AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m.id = c."messageId")`
}

/** Returns a CTE that deletes the calls in deleted messages if the runs of these calls no longer exist. */
export function deleteCallsOfMessagesSql(messageIds: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    DELETE FROM "ToolCall" c WHERE c."messageId" IN (${messageIds})
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId")`
}

/**
 * SQL condition on a call: the result may contain names of people, because the server produced the result or people
 * approved the call.
 */
export const NAMES_PEOPLE_SQL = Prisma.sql`(execution IS NULL OR "approvalState" IS NOT NULL)`

/** A locked call. `isLate`: whether its deadline has passed by the clock of the database. */
export type LockedCall = ToolCall & { isLate: boolean }

export async function lockCall(tx: Tx, id: string): Promise<LockedCall | null> {
  const [call] = await tx.$queryRaw<LockedCall[]>`
    SELECT *, coalesce("expiresAt" <= now(), false) AS "isLate" FROM "ToolCall" WHERE id = ${id} FOR NO KEY UPDATE`
  return call ?? null
}

/**
 * The maximum length of the output of a call that agents read as part of a message, in characters of JSON. Longer
 * outputs are truncated.
 */
export const LONGEST_OUTPUT = 2000

/**
 * SQL condition on a call `c`: its output may be shown. If people see the call only because it needs approval, only
 * its run may see the output.
 */
export const SHOWS_OUTPUT_SQL = Prisma.sql`(c.approval->>'hidesOutput')::boolean IS NOT TRUE`

/**
 * Returns a subquery for the calls that a message shows, as a JSON array of ReadableCall. Long outputs are truncated.
 */
export function readableCallsSql(messageId: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    SELECT jsonb_agg(jsonb_build_object('id', c.id, 'name', c."toolName", 'status', c.status,
      'output', CASE WHEN ${SHOWS_OUTPUT_SQL} AND length(c.output::text) <= ${2 * LONGEST_OUTPUT} THEN c.output END,
      'outputStart', CASE WHEN ${SHOWS_OUTPUT_SQL} AND length(c.output::text) > ${2 * LONGEST_OUTPUT} THEN left(c.output::text, ${LONGEST_OUTPUT}) END))
    FROM "ToolCall" c WHERE c."messageId" = ${messageId}`
}

/** Writes copies of calls and assigns them to a run. A copy that already exists is only assigned to the run. */
export async function adoptCalls(tx: Tx, calls: readonly ToolCall[], runId: string): Promise<void> {
  if (calls.length > 0) await tx.$queryRaw(insertionOf('ToolCall', calls))
  const ids = calls.map(({ id }) => id)
  await tx.$executeRaw`UPDATE "ToolCall" SET "runId" = ${runId} WHERE id = ANY(${ids}::text[])`
}

/** Sets the deadline of a call that waits for its result or for approval to the current time. Used by replays. */
export async function makeCallDue(tx: Tx, id: string): Promise<void> {
  await tx.$executeRaw`UPDATE "ToolCall" SET "expiresAt" = now() WHERE id = ${id} AND status = 'WAITING'`
}

import { type Marks, setsOf, take } from '../confidence/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Changes } from '../platform/changes.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Database } from '../platform/db.ts'
import { waitNoted } from '../runs/call-notifications.ts'
import { HELD, type HowHeld } from '../runs/hold.ts'
import * as calls from '../runs/tool-calls.ts'
import { type Message, messageOfRow } from '../spaces/message.ts'
import { change, isVersion } from '../spaces/message-statements.ts'
import type { Foreseen } from '../spaces/posting.ts'

export type MayWrite =
  | { type: 'yes'; lastSeq: number }
  | { type: 'not-a-member' }
  | { type: 'mentions-no-agent' }
  | { type: 'mentions-paused' }

/** Whether an agent may post in a space, and mention another one there; with the last message of the space. */
export async function mayWrite(
  db: Database,
  agentId: string,
  { spaceId, mention }: { spaceId: string; mention: string | null },
): Promise<MayWrite> {
  const [place] = await db.prisma.$queryRaw<{ lastSeq: number; paused: boolean | null }[]>`
      SELECT s."lastSeq", a.paused FROM "Space" s
      JOIN "Membership" m ON m."spaceId" = s.id AND m."entityId" = ${agentId}
      LEFT JOIN "Membership" o ON o."spaceId" = s.id AND o."entityId" = ${mention}
      LEFT JOIN "Agent" a ON a.id = o."entityId"
      WHERE s.id = ${spaceId}`
  if (place === undefined) return { type: 'not-a-member' }
  if (mention !== null && place.paused !== false)
    return { type: place.paused === null ? 'mentions-no-agent' : 'mentions-paused' }
  return { type: 'yes', lastSeq: place.lastSeq }
}

/** The end of a message with a mention or a question; `waits`: it shows a waiting call. */
export function endOf(mentionedAgentId: string | null, asks: { people: boolean } | undefined, waits: Prisma.Sql) {
  const status = asks?.people === true ? ('REQUIRES_ACTION' as const) : ('COMPLETE' as const)
  return { status, mentionedAgentId, waits, asks: asks !== undefined }
}

/** The changes that finish a text message, with its optimistic routing decision. */
export function changesForeseen(
  { id, spaceId, parts, ...marks }: Pick<Message, 'id' | 'spaceId' | 'parts' | 'places' | 'label'>,
  { result, mention }: { result?: (calls.Settlement & { toolCallId: string }) | undefined; mention: string | null },
  { version, isAsKnown, changes }: Foreseen<unknown>,
  isHeard: Prisma.Sql,
): Changes {
  const condition = Prisma.sql`${HELD} AND ${isVersion(spaceId, version)} AND ${isAsKnown} AND ${isHeard}`
  return {
    message: change(id, { parts, marks, end: endOf(mention, undefined, Prisma.sql`false`) }, condition),
    ...(result === undefined ? {} : { result: calls.settled(result.toolCallId, result, 'message') }),
    ...changes,
  }
}

/** The changes for a newly shown call: the call itself and, if it waits, its notification. */
export function showing(shown: calls.ShownCall | undefined): Changes {
  if (shown === undefined) return {}
  return { shown: calls.shown(shown), ...(shown.waitMs ? { notice: waitNoted('shown') } : {}) }
}

/**
 * A waiting call is answered in its space, so the run will learn what is written there: adds the
 * space to the run's marks.
 */
export function answeredIn(run: Marks, spaceId: string, shown: calls.ShownCall | undefined): Pick<HowHeld, 'sets'> {
  if (!shown?.waitMs) return {}
  take(run, { places: [spaceId] })
  return { sets: setsOf(run) }
}

/** Returns the message that the run posted earlier with the same key, if the error is a violation of that key. */
export async function postedBefore(
  { prisma }: Database,
  error: unknown,
  posted: { runId: string; runPostKey: string },
): Promise<Message> {
  const row = isUniqueViolation(error) ? await prisma.message.findFirst({ where: posted }) : null
  if (row === null) throw error
  return messageOfRow(row)
}

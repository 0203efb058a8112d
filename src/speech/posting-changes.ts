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

/** Whether an agent may write in a space, and mention another there; and the last message there now. */
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

/** How a message ends that mentions or asks somebody; `waits`: a call that it shows does. */
export function endOf(mentionedAgentId: string | null, asks: { people: boolean } | undefined, waits: Prisma.Sql) {
  const status = asks?.people === true ? ('REQUIRES_ACTION' as const) : ('COMPLETE' as const)
  return { status, mentionedAgentId, waits, asks: asks !== undefined }
}

/** What ends a message of text, and all that follows from that. */
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

/** What a call that shows now adds to the message's statement: itself, and where it waits, that whoever wants to know is told. */
export function showing(shown: calls.ShownCall | undefined): Changes {
  if (shown === undefined) return {}
  return { shown: calls.shown(shown), ...(shown.waitMs ? { notice: waitNoted('shown') } : {}) }
}

/** Whoever answers a call that waits says it where that shows: its run comes to know what is said there. */
export function answeredIn(run: Marks, spaceId: string, shown: calls.ShownCall | undefined): Pick<HowHeld, 'sets'> {
  if (!shown?.waitMs) return {}
  take(run, { places: [spaceId] })
  return { sets: setsOf(run) }
}

/** What the run posted under the key before, when posting it again was refused for that. */
export async function postedBefore(
  { prisma }: Database,
  error: unknown,
  posted: { runId: string; runPostKey: string },
): Promise<Message> {
  const row = isUniqueViolation(error) ? await prisma.message.findFirst({ where: posted }) : null
  if (row === null) throw error
  return messageOfRow(row)
}

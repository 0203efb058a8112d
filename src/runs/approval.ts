import { createHash } from 'node:crypto'
import { isHeardBy, isHeardIn } from '../confidence/world.ts'
import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { canonicalText, type Json, type JsonObject } from '../lib/json.ts'

/** What a call's approval goes by, whatever becomes of its tool meanwhile: kept with the call. */
export type ApprovalTerms = {
  /** How many humans must approve. */
  quorum: number
  /** The digest of the input that the model wrote. */
  writtenDigest: string
  /** What an edited input must satisfy. */
  inputSchema: JsonObject
  /** Of the tool as it was when people were asked (Tool.versionDigest): another one is not what they approved. Absent in old rows. */
  toolDigest?: string
  /** The tool is not visible: what comes of it is not shown where the call is. */
  hidesOutput: boolean
  /** Once it is approved, so long somebody outside has for its result; null: the server carries it out. */
  answerMs: number | null
  /** Its time was given: that of a run which waits for it stands still. */
  patient: boolean
  /** How often its input was edited; absent: never. */
  edits?: number
}

/** The approval that a tool's calls ask for. */
export interface AskedApproval extends Omit<ApprovalTerms, 'writtenDigest' | 'edits'> {
  /** None: the human members of the space in which the call shows. */
  approverIds: string[]
  expiresInSeconds: number
  /** Null: never. */
  escalateAfterSeconds: number | null
  escalateToIds: string[]
}

/** The approval that a call asks for. */
export interface NewApproval extends AskedApproval {
  writtenDigest: string
}

/** Decisions of one call, whoever makes them: all are stored, and shown wherever the call is. */
export const MOST_DECISIONS = 100

/** Names an input. */
export function digestOf(input: Json): string {
  return createHash('sha256').update(canonicalText(input)).digest('base64url')
}

/** The terms of a call that was asked to be approved. */
export function termsOf({ approval }: Pick<ToolCall, 'approval'>): ApprovalTerms | null {
  return approval as ApprovalTerms | null
}

/** What of a call says whom its approval is asked of. */
export type AskedCall = Pick<ToolCall, 'approverIds' | 'escalateToIds' | 'escalatedAt'>

/** A subquery: the ids of the humans whom the call `c` asks by its terms. */
export const ASKED = Prisma.sql`
  SELECT h.id FROM (
    SELECT unnest(c."approverIds") AS id
    UNION SELECT unnest(c."escalateToIds") WHERE c."escalatedAt" IS NOT NULL
    UNION SELECT m."entityId" FROM "Membership" m WHERE m."spaceId" = c."spaceId" AND cardinality(c."approverIds") = 0
  ) asked JOIN "Entity" h ON h.id = asked.id AND h.kind = 'HUMAN' AND h."goneAt" IS NULL`

/** Of these, those who may decide: who may not hear what it comes from is not asked. */
export const DECIDERS = Prisma.sql`
  SELECT h.id FROM (${ASKED}) h WHERE ${isHeardBy(Prisma.sql`h.id`, Prisma.sql`c.places || c.label`)}`

/**
 * In an UPDATE that gives a call the result that somebody outside was waited for with: where who has come in meanwhile may not hear what
 * the call comes from, the result is not shown there. What a member answers in the space itself is.
 */
export const HIDDEN_IF_UNHEARD = Prisma.sql`approval = CASE
  WHEN "spaceId" IS NULL OR execution = 'SPACE' OR ${isHeardIn(Prisma.sql`"ToolCall"."spaceId"`, Prisma.sql`places || label`)} THEN approval
  ELSE coalesce(approval, '{}') || '{"hidesOutput": true}' END`

/** Whether a call of somebody's own tool is approved, and not carried out yet: a worker has it, or will. */
export function isBeingCarriedOut({ status, carryAt }: Pick<ToolCall, 'status' | 'carryAt'>): boolean {
  return status === 'RUNNING' && carryAt !== null
}

/** A condition: a call waits for somebody outside its run, or for who carries it out. */
export const IS_LEFT_TO_OTHERS = Prisma.sql`(status = 'WAITING' OR "carryAt" IS NOT NULL)`

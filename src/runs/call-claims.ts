import type { ToolCall } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { noted } from './call-notifications.ts'
import { type Audience, audienceOf } from './call-publisher.ts'
import type { CallSettling } from './call-settling.ts'
import { decidersOf } from './deciders.ts'
import { waitsFor } from './tool-call-reading.ts'
import { claimed } from './tool-calls.ts'

/** Claims of waiting calls by people. */
export interface CallClaims {
  /**
   * Claims or releases a call for a human who can see it.
   * @throws ConflictError, ForbiddenError, LimitExceededError
   */
  claim(call: ToolCall, humanId: string, release: boolean): Promise<ToolCall>
  /** Returns by call the human who has claimed it, while it waits and that human may answer it. */
  claimersOf(calls: readonly ToolCall[]): Promise<Map<string, string>>
}

export function createCallClaims({ db }: Platform, settling: Pick<CallSettling, 'tellChanged'>): CallClaims {
  return {
    async claim(seen, humanId, release) {
      if (!isClaimable(seen)) throw new ConflictError(whyNot(seen))
      if (!(await mayAnswer(db.prisma, seen, humanId))) throw new ForbiddenError(NOT_YOURS)
      const { call, audience } = await db.transaction((tx) => claimIn(tx, seen.id, humanId, release))
      if (audience !== null) await settling.tellChanged(call, audience)
      return call
    },
    async claimersOf(calls) {
      const held = calls.filter((call) => call.claimedById !== null && isClaimable(call))
      const stands = await Promise.all(held.map((call) => mayAnswer(db.prisma, call, call.claimedById ?? '')))
      return new Map(held.flatMap((call, index) => (stands[index] === true ? [[call.id, call.claimedById ?? '']] : [])))
    },
  }
}

/** Maximum number of claims and releases of one call, because each is in the audit log. */
const MOST_CHANGES = 100

const NOT_YOURS = 'Only a person who may answer this call can claim it.'

const isClaimable = (call: ToolCall) => ['RESULT', 'DECISION'].includes(waitsFor(call) ?? '')

/** Claims a call for somebody who may answer it. Ignores an earlier claim of a human who no longer may. */
async function claimIn(
  tx: Tx,
  id: string,
  humanId: string,
  release: boolean,
): Promise<{ call: ToolCall; audience: Audience | null }> {
  const [call] = await tx.$queryRaw<ToolCall[]>`SELECT * FROM "ToolCall" WHERE id = ${id} FOR NO KEY UPDATE`
  if (call === undefined || !isClaimable(call)) throw new ConflictError(whyNot(call))
  const { claimedById } = call
  const isAnothers = claimedById !== null && claimedById !== humanId && (await mayAnswer(tx, call, claimedById))
  if (isAnothers)
    throw new ConflictError('Another person has claimed this call (see claimedBy). You may still answer it.')
  if (claimedById === (release ? null : humanId)) return { call, audience: null }
  if (call.claimChanges >= MOST_CHANGES)
    throw new LimitExceededError(
      `This call has been claimed and released ${MOST_CHANGES} times, the maximum: answer it without claiming it.`,
    )
  const changed = await claimed(tx, id, release ? null : humanId)
  if (!release) await noted(tx, id, 'tool_call.claimed')
  return { call: changed, audience: audienceOf(call) }
}

function whyNot(call: ToolCall | undefined): string {
  if (call !== undefined && waitsFor(call) === 'MESSAGE')
    return 'This call waits for a message: post one in its space (sendMessage).'
  return 'This call no longer waits for an answer.'
}

/** Whether a human may answer the call. */
async function mayAnswer(tx: Tx, call: ToolCall, humanId: string): Promise<boolean> {
  if (waitsFor(call) === 'DECISION') return (await decidersOf(tx, call.id)).includes(humanId)
  if (call.execution !== 'SPACE' || call.spaceId === null) return false
  return (await tx.membership.count({ where: { spaceId: call.spaceId, entityId: humanId } })) > 0
}

import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Approvals } from './approvals.ts'
import type { CallClaims } from './call-claims.ts'
import { type ToolCalls, waitsFor } from './tool-call-reading.ts'

export interface DecideInput {
  toolCallId: string
  approve: boolean
  reason?: string | null
  input?: unknown
  inputDigest?: string | null
}

/** Deciding on calls that wait for approval, for viewers. */
export interface Deciding {
  /** @throws NotFoundError, ForbiddenError, ConflictError, BadInputError, RateLimitedError */
  decideToolCall(viewer: Viewer, input: DecideInput): Promise<ToolCall>
  /** @throws NotFoundError, ForbiddenError, ConflictError */
  claimToolCall(viewer: Viewer, input: { toolCallId: string; release: boolean }): Promise<ToolCall>
}

interface DecidingParts {
  visibility: Visibility
  toolCalls: Pick<ToolCalls, 'getMany'>
  approvals: Pick<Approvals, 'decide'>
  callClaims: Pick<CallClaims, 'claim'>
}

const HUMANS_ONLY = 'Only a human decides and sees to calls: an admin or a service does so as nobody.'

export function createDeciding(_: Platform, { visibility, toolCalls, approvals, callClaims }: DecidingParts): Deciding {
  /** Returns a call to a human who may see it. */
  async function seen(viewer: Viewer, toolCallId: string): Promise<{ call: ToolCall; humanId: string }> {
    const [call] = await toolCalls.getMany([toolCallId])
    // A human who is too late gets a ConflictError, not NotFoundError.
    if (call == null || !(await visibility.toolCallsAskedAbout(viewer, [call])).has(call.id))
      throw new NotFoundError('There is no such tool call.')
    if (viewer.scope !== 'HUMAN') throw new ForbiddenError(HUMANS_ONLY)
    return { call, humanId: viewer.id }
  }

  return {
    async decideToolCall(viewer, { toolCallId, approve, reason, input, inputDigest }) {
      const { call, humanId } = await seen(viewer, toolCallId)
      const waits = waitsFor(call)
      if (waits === 'RESULT' && call.approvalState === null)
        throw new ConflictError('This call waits for its result: submit it (submitToolResult).')
      if (waits === 'MESSAGE')
        throw new ConflictError('This call waits for a message: post one in its space (sendMessage).')
      // Clients send null for an omitted input. Tools accept only objects, so null cannot be meant as one.
      const given = { approve, reason: reason ?? null, input: input ?? undefined, inputDigest: inputDigest ?? null }
      return approvals.decide(call, humanId, given)
    },
    async claimToolCall(viewer, { toolCallId, release }) {
      const { call, humanId } = await seen(viewer, toolCallId)
      return callClaims.claim(call, humanId, release)
    },
  }
}

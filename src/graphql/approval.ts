import {
  BadInputError,
  ConflictError,
  DomainError,
  ForbiddenError,
  LimitExceededError,
  NotFoundError,
  RateLimitedError,
} from '../lib/errors.ts'
import { mayDecide } from '../rules/approvals.ts'
import { existing, loadAll, loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { type Context, checkRequestRate, renewed, takeRate } from './context.ts'
import { actorOf } from './recording.ts'
import { Human, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const ApprovalState = builder.enumType('ApprovalState', {
  values: {
    PENDING: {},
    APPROVED: {},
    DENIED: {},
    EXPIRED: {},
    CANCELED: {
      description:
        'The run was stopped or failed, or the agent left the space. Approvals of a think cycle that completed stay PENDING.',
    },
  } as const,
})

type AnyDecision = Pick<
  shapes.ApprovalStanding['decisions'][number],
  'humanId' | 'approve' | 'reason' | 'at' | 'counts'
>

export const ApprovalDecision = builder.objectRef<AnyDecision>('ApprovalDecision').implement({
  fields: (t) => ({
    human: t.field({ type: Human, resolve: ({ humanId }, _, { loaders }) => loadExisting(loaders.entities, humanId) }),
    approve: t.exposeBoolean('approve'),
    reason: t.exposeString('reason', { nullable: true }),
    at: t.expose('at', { type: 'DateTime' }),
    counts: t.exposeBoolean('counts', {
      description: 'Whether the decision counts: it concerns the current input, and the human may still decide.',
    }),
  }),
})

const standingOf = (call: shapes.ToolCall, { loaders }: Context) => loaders.approvals.load(call)

/** A call that needs approval. */
export const Approval = builder.objectRef<shapes.ToolCall>('Approval').implement({
  description:
    'The approval that one tool call needs. Subscriptions that deliver the call also deliver changes to its approval.',
  fields: (t) => ({
    state: t.field({ type: ApprovalState, resolve: ({ approvalState }) => approvalState! }),
    quorum: t.int({ resolve: (call) => (call.approval as { quorum: number }).quorum }),
    decisions: t.field({
      type: [ApprovalDecision],
      description: 'The last 100 decisions, oldest first.',
      resolve: async (call, _, context) => (await standingOf(call, context)).decisions,
    }),
    approvers: t.field({
      type: [Human],
      description: 'The humans who may decide now.',
      resolve: async (call, _, context) => {
        const { deciderIds } = await standingOf(call, context)
        const humans = await loadAll(context.loaders.entities, deciderIds)
        return humans.filter((human) => human !== null)
      },
    }),
    mayDecide: t.boolean({
      description: 'Whether the viewer may decide now.',
      resolve: async (call, _, context) => {
        const { viewer } = context
        return viewer.scope === 'HUMAN' && mayDecide(call, await standingOf(call, context), viewer.id)
      },
    }),
    inputDigest: t.string({
      description:
        'Identifies the current input. Pass it to `decideToolCall`, so that only the input that the approvers saw is executed.',
      resolve: ({ inputDigest }) => inputDigest ?? '',
    }),
    expiresAt: t.field({ type: 'DateTime', resolve: ({ approvalExpiresAt }) => approvalExpiresAt! }),
    escalatedAt: t.expose('escalatedAt', { type: 'DateTime', nullable: true }),
  }),
})

const DecideToolCallInput = builder.inputType('DecideToolCallInput', {
  fields: (t) => ({
    toolCallId: t.id({ required: true }),
    approve: t.boolean({ required: true }),
    reason: t.string(),
    input: t.field({
      type: 'JSON',
      description:
        "Replaces the input that the model wrote. Must match the tool's schema. Earlier approvals become invalid.",
    }),
    inputDigest: t.string({
      description:
        '`Approval.inputDigest` of the input that the human approves. If absent, the approval applies to the input that the model wrote, and a ConflictError is returned if that input has been edited. Ignored for a denial.',
    }),
  }),
})

const DecideToolCallsInput = builder.inputType('DecideToolCallsInput', {
  fields: (t) => ({
    toolCallIds: t.idList({
      required: true,
      description: '1 to 100 calls. The rules of `decideToolCall` apply to each call.',
    }),
    approve: t.boolean({ required: true }),
    reason: t.string(),
  }),
})

const ClaimToolCallInput = builder.inputType('ClaimToolCallInput', {
  fields: (t) => ({
    toolCallId: t.id({ required: true }),
    release: t.boolean({
      required: true,
      defaultValue: false,
      description: "If true, releases the viewer's claim instead.",
    }),
  }),
})

const payload = (name: string) =>
  builder.objectRef<{ toolCall: shapes.ToolCall }>(name).implement({
    fields: (t) => ({ toolCall: t.expose('toolCall', { type: ToolCall }) }),
  })

async function seen(call: shapes.ToolCall, { loaders }: Context): Promise<{ toolCall: shapes.ToolCall }> {
  const [toolCall] = await loaders.seenToolCalls([call])
  return { toolCall: existing(toolCall) }
}

const DecideToolCallPayload = payload('DecideToolCallPayload')

const DecideToolCallResult = builder.errorUnion('DecideToolCallResult', {
  description:
    'ConflictError: the call has been decided, has expired or was canceled, its input has changed, or this human has already decided on this input. ForbiddenError: the viewer may not decide; admins never may. LimitExceededError: the call has reached 20 edits or 100 decisions; it can still be denied.',
  types: [
    DecideToolCallPayload,
    BadInputError,
    ConflictError,
    ForbiddenError,
    LimitExceededError,
    NotFoundError,
    RateLimitedError,
  ],
  resolveType: () => DecideToolCallPayload,
})

type Decided = { toolCall: shapes.ToolCall } | DomainError

const DecideToolCallsPayload = builder.objectRef<{ results: Decided[] }>('DecideToolCallsPayload').implement({
  fields: (t) => ({
    results: t.field({
      type: [DecideToolCallResult],
      complexity: { field: 0, multiplier: 1 },
      description: 'One result for each call, in the order of the input.',
      resolve: ({ results }) => results as never,
    }),
  }),
})

const MOST_DECIDED_AT_ONCE = 100
/** How many decisions in one mutation count as one message. */
const DECISIONS_A_MESSAGE = 10

/** Decides on one of several calls, and writes a separate audit entry. Returns expected failures as results. */
async function decideOne(
  context: Context,
  { toolCallId, approve, reason }: { toolCallId: string; approve: boolean; reason: string | null },
): Promise<Decided> {
  const { domain, viewer } = context
  const deedOf = () => ({
    ...actorOf(viewer),
    action: 'decideToolCall',
    targetId: toolCallId,
    detail: { approve, fields: ['toolCallId', 'approve', ...(reason === null ? [] : ['reason'])] },
  })
  const decide = () => domain.control.decideToolCall(viewer, { toolCallId, approve, reason })
  try {
    return await seen(await domain.record.during(deedOf, decide, { onlyRefusals: false }), context)
  } catch (error) {
    if (error instanceof DomainError) return error
    throw error
  }
}

/**
 * How many messages a claim counts as. It counts as several, because it is audited and sends a notification to
 * `notifyUrl`.
 */
const CLAIM_POINTS = 10

builder.mutationFields((t) => ({
  decideToolCall: t.field({
    type: DecideToolCallResult,
    args: { input: t.arg({ type: DecideToolCallInput, required: true }) },
    async resolve(_, { input }, context) {
      // A denial ends the call, so it does not count towards the message rate.
      if (input.approve) await takeRate(context, 'messages')
      else checkRequestRate(context)
      const fresh = renewed(context)
      return seen(await fresh.domain.control.decideToolCall(fresh.viewer, input), fresh)
    },
  }),
  decideToolCalls: t.field({
    type: DecideToolCallsPayload,
    description: 'Approves or denies several calls, one after the other.',
    errors: { types: [BadInputError, RateLimitedError] },
    complexity: ({ input }) => ({ field: 1, multiplier: input.toolCallIds.length }),
    args: { input: t.arg({ type: DecideToolCallsInput, required: true }) },
    async resolve(_, { input: { toolCallIds, approve, reason } }, context) {
      const count = toolCallIds.length
      if (count < 1 || count > MOST_DECIDED_AT_ONCE)
        throw new BadInputError(`Name 1 to ${MOST_DECIDED_AT_ONCE} tool calls.`, 'input.toolCallIds')
      if (approve) await takeRate(context, 'messages', Math.ceil(count / DECISIONS_A_MESSAGE))
      else checkRequestRate(context)
      const fresh = renewed(context)
      const results: Decided[] = []
      for (const toolCallId of toolCallIds)
        results.push(await decideOne(fresh, { toolCallId, approve, reason: reason ?? null }))
      return { results }
    },
  }),
  claimToolCall: t.field({
    type: payload('ClaimToolCallPayload'),
    description:
      'Marks a waiting tool call as being handled by the viewer, so that two people do not work on the same answer. Possible for calls whose result the viewer may submit, or on which the viewer may decide.',
    errors: {
      types: [ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ConflictError: somebody else has claimed the call, or the call is no longer waiting. LimitExceededError: the call has been claimed and released too many times; answer it without claiming it.',
      },
    },
    args: { input: t.arg({ type: ClaimToolCallInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages', CLAIM_POINTS)
      const fresh = renewed(context)
      return seen(await fresh.domain.control.claimToolCall(fresh.viewer, input), fresh)
    },
  }),
}))

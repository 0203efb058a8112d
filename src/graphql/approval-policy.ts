import { waitSecondsOf } from '../rules/approvals.ts'
import { loadAll } from './batch.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { Human } from './refs.ts'
import type * as shapes from './shapes.ts'

export const ApprovalPolicyInput = builder.inputType('ApprovalPolicyInput', {
  description:
    'Who must approve a call to the tool before the call is executed. A policy can be set for tools of every `ToolExecution`. A call is subject to the policy in force when the call was made.',
  fields: (t) => ({
    quorum: t.int({
      required: true,
      defaultValue: 1,
      description:
        'How many humans must approve, 1 to 50. A single denial denies the call, even if the quorum is higher.',
    }),
    approverIds: t.idList({
      description: 'The humans who may decide. If absent: every human member of the space in which the call is shown.',
    }),
    expiresInSeconds: t.int({
      description: 'At most 2,592,000. If absent: `PARLEY_APPROVAL_WAIT_SECONDS`. An expired call is not executed.',
    }),
    escalateAfterSeconds: t.int({
      description:
        'Must be less than `expiresInSeconds`. After this time the humans in `escalateToIds` are notified and may also decide; their approvals count towards the same quorum.',
    }),
    escalateToIds: t.idList(),
  }),
})

/** Loads the humans who still exist. Returns null if `ids` is null. */
async function humansOf(ids: string[] | null, { loaders }: Context) {
  if (ids === null) return null
  return (await loadAll(loaders.entities, ids)).filter((human) => human !== null)
}

export const ApprovalPolicy = builder.objectRef<NonNullable<shapes.Tool['approval']>>('ApprovalPolicy').implement({
  fields: (t) => ({
    quorum: t.exposeInt('quorum'),
    approvers: t.field({
      type: [Human],
      nullable: true,
      resolve: ({ approverIds }, _, context) => humansOf(approverIds, context),
    }),
    expiresInSeconds: t.int({
      resolve: (policy, _, { domain }) => waitSecondsOf(policy, domain.limits),
    }),
    escalateAfterSeconds: t.exposeInt('escalateAfterSeconds', { nullable: true }),
    escalateTo: t.field({
      type: [Human],
      nullable: true,
      resolve: ({ escalateToIds }, _, context) => humansOf(escalateToIds, context),
    }),
  }),
})

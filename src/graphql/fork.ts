import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { existing } from './batch.ts'
import { builder } from './builder.ts'
import { checkRequestRate, renewed } from './context.ts'
import { Run, Space } from './refs.ts'
import type * as shapes from './shapes.ts'

const ForkSpaceInput = builder.inputType('ForkSpaceInput', {
  fields: (t) => ({
    spaceId: t.id({ required: true }),
    atSeq: t.int({ description: 'The `seq` of the last message to copy. If absent: all messages are copied.' }),
    name: t.string({ description: 'If absent: the name of the original, with "(copy)".' }),
  }),
})

const ForkSpacePayload = builder.objectRef<{ space: shapes.Space }>('ForkSpacePayload').implement({
  fields: (t) => ({ space: t.expose('space', { type: Space }) }),
})

builder.mutationField('forkSpace', (t) =>
  t.field({
    type: ForkSpacePayload,
    description:
      'Copies a space, to try something out without changing the original. Copied messages keep their senders, times, files and reactions. No agent is woken, and no plan is copied.',
    errors: {
      types: [BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError],
      union: {
        description:
          "Only admins, and human members who may add every agent of the space (`addableBy`), may copy a space. The members of the copy are the viewer and copies of the agents. The copy keeps the confidentiality labels, the approvers and the quorum. A copied agent has only the memories that the viewer may read, and its tools with external effects require approval. The copy counts towards the viewer's limit of new spaces, and is subject to erasure and retention. ConflictError: a person who posted in the space is being erased.",
      },
    },
    args: { input: t.arg({ type: ForkSpaceInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const [space] = await loaders.seenSpaces([await domain.forking.fork(viewer, input)])
      return { space: existing(space) }
    },
  }),
)

const RerunStepInput = builder.inputType('RerunStepInput', {
  fields: (t) => ({
    runId: t.id({ required: true }),
    step: t.int({ required: true, description: 'The first step to repeat, counted from 0.' }),
    instructions: t.string({ description: "If absent: the agent's own instructions." }),
    model: t.string({
      description: "The model for the repeated step and all later ones. If absent: the agent's own model.",
    }),
  }),
})

const RerunStepPayload = builder.objectRef<{ run: shapes.Run }>('RerunStepPayload').implement({
  fields: (t) => ({
    run: t.expose('run', { type: Run, description: 'The new run, in the copy of the space.' }),
  }),
})

builder.mutationField('rerunStep', (t) =>
  t.field({
    type: RerunStepPayload,
    description:
      'Repeats an ended run from one of its steps on, with different instructions or a different model. The new run takes place in a copy of the space as of that step. As in a copy made by `forkSpace`, tools with external effects require approval.',
    errors: {
      types: [BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError],
      union: {
        description:
          'Admins only. BadInputError: the run has no such step. ConflictError: the run has not ended or is a think cycle, its journal was deleted by retention, or its agent was deleted or has left the space.',
      },
    },
    args: { input: t.arg({ type: RerunStepInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const [run] = await loaders.seenRuns([await domain.forking.rerun(viewer, input)])
      return { run: existing(run) }
    },
  }),
)

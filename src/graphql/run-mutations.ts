import { ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { existing } from './batch.ts'
import { builder } from './builder.ts'
import { renewed, takeRate } from './context.ts'
import { Run } from './refs.ts'
import type * as shapes from './shapes.ts'

const StopRunInput = builder.inputType('StopRunInput', {
  fields: (t) => ({
    runId: t.id({ required: true }),
    cascade: t.boolean({
      required: true,
      defaultValue: false,
      description: 'Whether to stop every run that this run started as well, in any space.',
    }),
  }),
})

const StopRunPayload = builder.objectRef<{ run: shapes.Run; stoppedRuns: shapes.Run[] }>('StopRunPayload').implement({
  fields: (t) => ({
    run: t.expose('run', { type: Run }),
    stoppedRuns: t.expose('stoppedRuns', {
      type: [Run],
      description:
        'The runs that this mutation stopped and that the viewer may see. The run itself is the first unless it had already ended. With `cascade`, active descendants are stopped even if the run itself has ended, and a ConflictError means that there was nothing to stop.',
    }),
  }),
})

builder.mutationField('stopRun', (t) =>
  t.field({
    type: StopRunPayload,
    errors: {
      types: [ForbiddenError, NotFoundError, ConflictError],
      union: {
        description: 'ConflictError: the run had already ended and, with `cascade`, no run that it started was active.',
      },
    },
    args: { input: t.arg({ type: StopRunInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer, loaders } = renewed(context)
      const { run, stoppedRuns } = await domain.control.stopRun(viewer, input)
      const [[seen], stopped] = await Promise.all([loaders.seenRuns([run]), loaders.seenRuns(stoppedRuns)])
      return { run: existing(seen), stoppedRuns: stopped }
    },
  }),
)

const RetryRunInput = builder.inputType('RetryRunInput', {
  fields: (t) => ({ runId: t.id({ required: true }) }),
})

const RetryRunPayload = builder.objectRef<{ run: shapes.Run | null }>('RetryRunPayload').implement({
  fields: (t) => ({
    run: t.expose('run', {
      type: Run,
      nullable: true,
      description: 'Null for a persistent agent: the events return to its inbox.',
    }),
  }),
})

builder.mutationField('retryRun', (t) =>
  t.field({
    type: RetryRunPayload,
    description:
      "Starts a new run with the trigger, root, depth and requesters of a FAILED run. Only human members of the trigger's space, the service that triggered the run, and admins may retry a run.",
    errors: {
      types: [ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ConflictError: the run has not failed, was already retried, its chain has already continued, or its agent is paused. LimitExceededError: the root has reached its maximum number of runs, or a budget is exhausted.',
      },
    },
    args: { input: t.arg({ type: RetryRunInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, context.viewer.scope === 'SERVICE' ? 'triggers' : 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const { run } = await domain.control.retryRun(viewer, input)
      const [seen] = await loaders.seenRuns(run === null ? [] : [run])
      return { run: seen ?? null }
    },
  }),
)

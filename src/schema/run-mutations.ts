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
      description: 'Also stop every run, in any space, that this one set off.',
    }),
  }),
})

const StopRunPayload = builder.objectRef<{ run: shapes.Run; stoppedRuns: shapes.Run[] }>('StopRunPayload').implement({
  fields: (t) => ({
    run: t.expose('run', { type: Run }),
    stoppedRuns: t.expose('stoppedRuns', {
      type: [Run],
      description:
        'What this stop ended and the viewer may see; the run itself first, where it was alive. With `cascade`, a run that is over may still have living descendants: they are stopped. ConflictError where nothing of it was alive.',
    }),
  }),
})

builder.mutationField('stopRun', (t) =>
  t.field({
    type: StopRunPayload,
    errors: {
      types: [ForbiddenError, NotFoundError, ConflictError],
      union: { description: 'ConflictError: the run had already finished.' },
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
      description: 'Null for a persistent mind: its events wait in the inbox again.',
    }),
  }),
})

builder.mutationField('retryRun', (t) =>
  t.field({
    type: RetryRunPayload,
    description:
      "Starts what triggered a FAILED run anew, with the same root, depth and askers. By human members of its trigger's space, the service that triggered it, and admins.",
    errors: {
      types: [ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ConflictError: it has not failed, was retried already, its chain has gone on, or its agent is paused. LimitExceededError: its root has had its runs, or a budget is spent.',
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

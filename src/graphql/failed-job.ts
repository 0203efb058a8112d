import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { renewed } from './context.ts'
import type * as shapes from './shapes.ts'

const FailedJob = builder.objectRef<shapes.FailedJob>('FailedJob').implement({
  description:
    'A background job that failed at its last attempt. An admin can retry or delete the job. The server deletes it after 30 days.',
  fields: (t) => ({
    id: t.exposeID('id', { description: '`job_…`' }),
    name: t.exposeString('name', {
      description:
        'The kind of job: `fire-plan`, `send-notice`, `send-mail`, `delete-old-rows`, `finish-deletions` or `restore-jobs`.',
    }),
    subjectId: t.exposeID('subjectId', {
      nullable: true,
      description: 'The plan that should have fired, the tool call of the notification, or the recipient of the email.',
    }),
    attempts: t.exposeInt('attempts'),
    error: t.exposeString('error', { nullable: true, description: 'The error of the last attempt.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    failedAt: t.expose('failedAt', { type: 'DateTime' }),
  }),
})

const FailedJobEdge = builder.edgeObject({ type: FailedJob, name: 'FailedJobEdge' })
const FailedJobConnection = builder.connectionObject({ type: FailedJob, name: 'FailedJobConnection' }, FailedJobEdge)

builder.queryField('failedJobs', (t) =>
  t.connection(
    {
      type: FailedJob,
      nullable: true,
      description: 'The failed jobs, newest first. Null unless the viewer is an admin.',
      complexity: sizeOfPage(),
      async resolve(_, page, { domain, viewer }) {
        if (!isAdmin(viewer)) return null
        return connectionOf(await domain.failedJobs.page(idPageRequest('job', page)), idCursor)
      },
    },
    FailedJobConnection,
    FailedJobEdge,
  ),
)

const RetryJobInput = builder.inputType('RetryJobInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const RetryJobPayload = builder.objectRef<{ retriedJobId: string }>('RetryJobPayload').implement({
  fields: (t) => ({ retriedJobId: t.exposeID('retriedJobId') }),
})

const DeleteJobInput = builder.inputType('DeleteJobInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const DeleteJobPayload = builder.objectRef<{ deletedJobId: string }>('DeleteJobPayload').implement({
  fields: (t) => ({ deletedJobId: t.exposeID('deletedJobId') }),
})

builder.mutationFields((t) => ({
  retryJob: t.field({
    type: RetryJobPayload,
    description: 'Admins only. Enqueues a failed job again, with the full number of attempts.',
    errors: { types: [ConflictError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RetryJobInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.failedJobs.retry(viewer, input)
    },
  }),
  deleteJob: t.field({
    type: DeleteJobPayload,
    description:
      'Admins only. Deletes a failed job. If the job was to fire a plan, the plan still fires if it is enabled and due.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeleteJobInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.failedJobs.delete(viewer, input)
    },
  }),
}))

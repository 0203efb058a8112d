import { isAdmin } from '../rules/permissions.ts'
import { builder } from './builder.ts'
import type * as shapes from './shapes.ts'

const MailStatus = builder.objectRef<shapes.MailStatus>('MailStatus').implement({
  description: 'Whether emails reach the mail server. The server retries failed emails for about a day.',
  fields: (t) => ({
    configured: t.exposeBoolean('configured', { description: 'Whether the server can send email (PARLEY_SMTP_URL).' }),
    lastSentAt: t.expose('lastSentAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When the mail server last accepted an email. Null if it has accepted none in the last 30 days.',
    }),
    lastFailedAt: t.expose('lastFailedAt', {
      type: 'DateTime',
      nullable: true,
      description:
        'The start of the latest attempt for any email that has failed and is still unsent. If `lastSentAt` is later, mail works again.',
    }),
    lastError: t.exposeString('lastError', {
      nullable: true,
      description: 'The error of the last failed attempt to send the email of `lastFailedAt`.',
    }),
    retrying: t.exposeInt('retrying', {
      description: 'The number of emails that failed and that the server will retry.',
    }),
    failed: t.exposeInt('failed', {
      description: 'The number of emails that the server no longer tries to send. They are listed in `failedJobs`.',
    }),
  }),
})

builder.queryField('mailStatus', (t) =>
  t.field({
    type: MailStatus,
    nullable: true,
    description: 'Null unless the viewer is an admin.',
    // The field is expensive because it reads the records of all recent emails.
    complexity: 10,
    resolve: (_, __, { domain, viewer }) => (isAdmin(viewer) ? domain.mailStatus() : null),
  }),
)

import { z } from 'zod'
import { defineJob } from './job.ts'

/** The channel that signals to the workers that a job is due now, so that they do not wait for their next poll. */
export const DUE_JOBS_CHANNEL = 'due-jobs'

/** Fires the due slot of a plan. The key is the plan's id and the slot (`firingKey`). */
export const FIRE_PLAN = defineJob({
  name: 'fire-plan',
  input: z.object({ planId: z.string() }),
  subject: ({ planId }) => planId,
  // The retries take about four hours in total.
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 5,
})

/** Sends a notification about a waiting call to the agent's `notifyUrl`. The key is the call's id. */
export const SEND_NOTICE = defineJob({
  name: 'send-notice',
  input: z.object({
    /** The `webhook-id` header, which is the same in each attempt. */
    id: z.string(),
    agentId: z.string(),
    toolCallId: z.string(),
    /** The signed body. */
    body: z.string(),
  }),
  subject: ({ toolCallId }) => toolCallId,
  isOrdered: true,
  // The retries take about a day in total.
  retry: { limit: 35, delaySeconds: 1, maxDelaySeconds: 3600 },
  concurrency: 20,
})

/** The retries take about a day in total. */
const MAIL_RETRY = { limit: 35, delaySeconds: 1, maxDelaySeconds: 3600 }

/** Sends an email to a human, at the address that the human has at the time of sending. The key identifies the email. */
export const SEND_MAIL = defineJob({
  name: 'send-mail',
  input: z.object({
    key: z.string(),
    humanId: z.string(),
    subject: z.string(),
    text: z.string(),
    link: z.object({ path: z.string(), label: z.string() }).nullable(),
    /** When the email becomes outdated; null if it never does. */
    until: z.iso.datetime().nullable(),
  }),
  subject: ({ humanId }) => humanId,
  retry: MAIL_RETRY,
  concurrency: 5,
})

/**
 * Sends an email with a link that works once. The worker decides whether there is a recipient, so that a request takes
 * the same time for every address. `id` identifies the email.
 */
export const SEND_LINK = defineJob({
  name: 'send-link',
  input: z.discriminatedUnion('purpose', [
    z.object({ purpose: z.literal('SIGN_IN'), id: z.string(), email: z.string(), until: z.iso.datetime() }),
    z.object({ purpose: z.literal('INVITE'), id: z.string(), invitationId: z.string() }),
    z.object({ purpose: z.literal('CONFIRM'), id: z.string(), humanId: z.string(), email: z.string() }),
  ]),
  subject: (input) =>
    input.purpose === 'CONFIRM' ? input.humanId : input.purpose === 'INVITE' ? input.invitationId : null,
  retry: MAIL_RETRY,
  concurrency: 5,
})

/**
 * The maximum number of attempts to execute an approved call, including attempts whose process died and interrupted
 * attempts.
 */
export const MOST_EXECUTIONS = 5

/** Executes a tool call that people have approved. The key is the call's id. */
export const EXECUTE_CALL = defineJob({
  name: 'execute-call',
  input: z.object({ toolCallId: z.string() }),
  subject: ({ toolCallId }) => toolCallId,
  isOrdered: true,
  // The limit is higher than MOST_EXECUTIONS, because the last attempts record that the call was given up. The database
  // can be unavailable at that time.
  retry: { limit: MOST_EXECUTIONS + 25, delaySeconds: 1, maxDelaySeconds: 60 },
  concurrency: 20,
})

/** Cancels the task that a call of an ended run began on another server. The key is the call's id. */
export const CANCEL_REMOTE_TASK = defineJob({
  name: 'cancel-remote-task',
  input: z.object({ toolCallId: z.string() }),
  subject: ({ toolCallId }) => toolCallId,
  // The retries take about an hour in total.
  retry: { limit: 12, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 5,
})

/** Notifies people of a message, a call that waits for a decision, or a failed run. */
export const NOTIFY = defineJob({
  name: 'notify',
  input: z.object({ cause: z.enum(['message', 'decision', 'failed-run']), id: z.string() }),
  subject: ({ id }) => id,
  isOrdered: true,
  // The retries take about four hours in total.
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 5,
})

/** Sends a notice to one push subscription. The key consists of the notice's and the subscription's ids. */
export const SEND_PUSH = defineJob({
  name: 'send-push',
  input: z.object({
    noticeId: z.string(),
    humanId: z.string(),
    subscriptionId: z.string(),
    kind: z.enum(['DECISION_WAITING', 'MENTION', 'MESSAGE', 'RUN_FAILED']),
    spaceId: z.string().nullable(),
    messageId: z.string().nullable(),
    toolCallId: z.string().nullable(),
    runId: z.string().nullable(),
    /** How often the push service has refused the notice. */
    refusals: z.number(),
  }),
  subject: ({ noticeId }) => noticeId,
  // These retries are for failures of the database. After a refusal by the push service, the job enqueues the next
  // attempt itself.
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 20,
})

/**
 * Notifies an A2A client of the state of a task if the state has changed, and enqueues the next check. The key
 * identifies the configuration. The job reads the configuration's row to decide what to do.
 */
export const PUSH_TASK = defineJob({
  name: 'push-task',
  input: z.object({ viewerId: z.string(), taskId: z.string(), id: z.string() }),
  subject: ({ taskId }) => taskId,
  // The retries take about an hour in total.
  retry: { limit: 11, delaySeconds: 2, maxDelaySeconds: 1800 },
  concurrency: 20,
})

/** Emails a human the notices that are still open. The key consists of the human's id and the minute. */
export const MAIL_NOTICES = defineJob({
  name: 'mail-notices',
  input: z.object({ humanId: z.string() }),
  subject: ({ humanId }) => humanId,
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 5,
})

/** Adds the messages of a large copy of a space to the search index. */
export const INDEX_COPY = defineJob({
  name: 'index-copy',
  input: z.object({ spaceId: z.string() }),
  subject: ({ spaceId }) => spaceId,
  // The retries take about four hours in total.
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 1,
})

/** Deletes a copy of a deleted message: notifies the agents of its space, and removes derived texts. */
export const DELETE_COPY = defineJob({
  name: 'delete-copy',
  input: z.object({ messageId: z.string() }),
  subject: ({ messageId }) => messageId,
  // The retries take about six weeks in total, because a repeated run that continues from the copy can wait for people
  // for a month.
  retry: { limit: 1000, delaySeconds: 1, maxDelaySeconds: 3600 },
  concurrency: 2,
})

/**
 * Publishes a committed change if the process that committed it died before publishing it. The statement that writes
 * the change also enqueues this job, which is due after PUBLISHED_WITHIN_SECONDS. The process deletes the job when it
 * has published the change. The key identifies the change.
 */
export const PUBLISH_CHANGE = defineJob({
  name: 'publish-change',
  input: z.discriminatedUnion('type', [
    z.object({ type: z.literal('member'), change: z.string(), spaceId: z.string(), entityId: z.string() }),
    z.object({ type: z.literal('space'), change: z.string(), spaceId: z.string() }),
    z.object({ type: z.literal('human'), change: z.string(), humanId: z.string() }),
    z.object({ type: z.literal('message'), change: z.string(), messageId: z.string() }),
    z.object({ type: z.literal('call'), change: z.string(), toolCallId: z.string() }),
    z.object({ type: z.literal('run'), change: z.string(), runId: z.string() }),
  ]),
  subject(input) {
    switch (input.type) {
      case 'member':
      case 'space':
        return input.spaceId
      case 'human':
        return input.humanId
      case 'message':
        return input.messageId
      case 'call':
        return input.toolCallId
      case 'run':
        return input.runId
    }
  },
  isOrdered: true,
  // The retries take about four hours in total.
  retry: { limit: 30, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 5,
})

/** The delay of PUBLISH_CHANGE. It is longer than a process takes to publish a change after the commit. */
export const PUBLISHED_WITHIN_SECONDS = 10

const PERIODIC = {
  input: z.object({}),
  subject: () => null,
  // The retries take about two hours in total.
  retry: { limit: 20, delaySeconds: 1, maxDelaySeconds: 600 },
  concurrency: 1,
}

/** Deletes rows that are older than the settings allow. */
export const DELETE_OLD_ROWS = defineJob({ ...PERIODIC, name: 'delete-old-rows', everySeconds: 15 })

/** Deletes files that no message uses. */
export const SWEEP_FILES = defineJob({ ...PERIODIC, name: 'sweep-files', everySeconds: 60 })

/** Continues interrupted deletions of agents and spaces, and interrupted erasures of humans. */
export const FINISH_DELETIONS = defineJob({ ...PERIODIC, name: 'finish-deletions', everySeconds: 60 })

/**
 * Enqueues work that has no job, because an earlier version created the work, or because the work became due again when
 * a fast clock was corrected.
 */
export const RESTORE_JOBS = defineJob({ ...PERIODIC, name: 'restore-jobs', everySeconds: 30 })

/** Computes the vectors of texts that have none, for PARLEY_EMBEDDINGS. */
export const EMBED_TEXTS = defineJob({ ...PERIODIC, name: 'embed-texts', everySeconds: 3 })

/** Every kind of job. */
export const JOB_KINDS = [
  FIRE_PLAN,
  SEND_NOTICE,
  SEND_MAIL,
  SEND_LINK,
  EXECUTE_CALL,
  CANCEL_REMOTE_TASK,
  NOTIFY,
  SEND_PUSH,
  PUSH_TASK,
  MAIL_NOTICES,
  INDEX_COPY,
  DELETE_COPY,
  PUBLISH_CHANGE,
  DELETE_OLD_ROWS,
  SWEEP_FILES,
  FINISH_DELETIONS,
  RESTORE_JOBS,
  EMBED_TEXTS,
]

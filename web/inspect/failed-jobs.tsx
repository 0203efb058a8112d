import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleFailedJobsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Refused } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { addressOf, isId, type Named, nameOf } from './deeds.ts'
import { DELETE_JOB, FAILED_JOBS, NAMES, RETRY_JOB } from './operations.ts'

type Job = NonNullable<ConsoleFailedJobsQuery['failedJobs']>['edges'][number]['node']

/** The description of each kind of job: what failed, and what to do about it. */
const JOBS: Record<string, readonly [title: string, advice: string]> = {
  'cancel-remote-task': ['A task on another server was not canceled', 'Check whether that server can be reached.'],
  'delete-copy': ['A copy of a deleted message was not deleted', 'Check the database, then retry.'],
  'delete-old-rows': ['Old content was not deleted', 'Check the database. The server also tries again automatically.'],
  'embed-texts': [
    'Texts were not prepared for search by meaning',
    'Check the provider of PARLEY_EMBEDDINGS under Models.',
  ],
  'execute-call': ['An approved tool call was not executed', 'Check whether the service of the tool can be reached.'],
  'finish-deletions': [
    'Deleted agents, spaces or people were not removed completely',
    'Check the database. The server also tries again automatically.',
  ],
  'fire-plan': ['A plan did not fire', 'Check that its agent still exists and is not paused.'],
  'index-copy': ['A copied space is missing from the search', 'Check the database, then retry.'],
  'mail-notices': ['An email about open notifications was not sent', 'Check the mail server (PARLEY_SMTP_URL).'],
  notify: ['People were not notified', 'Check the database, then retry.'],
  'publish-change': ['A change was not published to open browsers', 'Check the connection to Redis, then retry.'],
  'push-task': [
    'An A2A client was not notified of its task',
    'Check whether the address of the client can be reached.',
  ],
  'restore-jobs': [
    'Lost background jobs were not recovered',
    'Check the database. The server also tries again automatically.',
  ],
  'send-link': [
    'An email with a link was not sent',
    'Check the mail server (PARLEY_SMTP_URL), or pass the link on yourself.',
  ],
  'send-mail': [
    'An email was not sent',
    'Check the mail server (PARLEY_SMTP_URL) and the email address of the person.',
  ],
  'send-notice': [
    'A service was not notified of a waiting call',
    'Check whether the notification URL of the agent can be reached.',
  ],
  'send-push': ['A push message was not sent', 'Check whether the server can connect to the push service.'],
  'sweep-files': ['Unused files were not deleted', 'Check the file store. The server also tries again automatically.'],
}

/** Lists background jobs that failed at their last attempt. Shows nothing if there are none. */
export function FailedJobs() {
  return <Pages>{(page) => <PageOfJobs page={page} />}</Pages>
}

function PageOfJobs({ page }: { page: PageOfList }) {
  const { connection } = useSession()
  const { data } = useAsk(FAILED_JOBS, { after: page.after })
  const retry = useDo(async (id: string) =>
    payloadOf((await connection.ask(RETRY_JOB, { id })).retryJob, 'RetryJobPayload'),
  )
  const jobs = (data?.failedJobs?.edges ?? []).map(({ node }) => node)
  const ids = jobs.flatMap(({ subjectId }) => (isId(subjectId) ? [subjectId] : []))
  const names = useAsk(NAMES, { ids }, { enabled: ids.length > 0 })
  const named = new Map((names.data?.nodes ?? []).flatMap((node) => (node === null ? [] : [[node.id, node] as const])))
  if (jobs.length === 0 && retry.error === null) return null
  return (
    <section className="block card" aria-label="Failed jobs">
      <h2>Failed jobs</h2>
      <p className="hint">
        Background jobs that failed several times, so the server stopped trying. Fix the cause, then retry the job,
        which runs at once. After 30 days, the job disappears from this list.
      </p>
      <ul className="rows">
        {jobs.map((job) => (
          <JobRow
            key={job.id}
            job={job}
            subject={named.get(job.subjectId ?? '')}
            isRetrying={retry.isBusy}
            onRetry={() => retry.start(job.id)}
          />
        ))}
      </ul>
      {data?.failedJobs && (
        <More page={page} pageInfo={data.failedJobs.pageInfo}>
          More failed jobs
        </More>
      )}
      <Refused error={retry.error} />
    </section>
  )
}

interface JobRowProps {
  job: Job
  /** The object that the job is about; undefined if it is unknown. */
  subject: Named | undefined
  isRetrying: boolean
  onRetry(): void
}

function JobRow({
  job: { id, name, subjectId, attempts, error, failedAt },
  subject,
  isRetrying,
  onRetry,
}: JobRowProps) {
  const { connection } = useSession()
  const remove = useDo(async (_: null) =>
    payloadOf((await connection.ask(DELETE_JOB, { id })).deleteJob, 'DeleteJobPayload'),
  )
  const [title, advice] = JOBS[name] ?? [name, 'Retry it; if it fails again, look for the error in the log.']
  return (
    <li className="plain-row">
      <span className="grow">
        <b>{title}</b> {subjectId !== null && <Subject id={subjectId} named={subject} />}
        <p className="note">
          {attempts === 1 ? 'Failed after 1 attempt' : `Failed after ${attempts} attempts`}, <Moment at={failedAt} />
          {error !== null && <>: {error}</>}
        </p>
        <p className="note">{advice}</p>
      </span>
      <span className="block-verbs">
        <Button isBusy={isRetrying} onClick={onRetry}>
          Retry
        </Button>
        <AskFirst
          title="Delete this job?"
          submit="Delete"
          isBusy={remove.isBusy}
          error={remove.error}
          onConfirm={(close) => remove.start(null, close)}
          button={(ask) => (
            <Button look="danger" onClick={ask}>
              Delete
            </Button>
          )}
        >
          <p>The server will never do this work. If the work is still needed, retry the job instead.</p>
        </AskFirst>
      </span>
    </li>
  )
}

function Subject({ id, named }: { id: string; named: Named | undefined }) {
  const address = addressOf(id, named)
  const words = named === undefined ? <code>{id}</code> : nameOf(id, named)
  return <span className="note">({address === null ? words : <Link href={address}>{words}</Link>})</span>
}

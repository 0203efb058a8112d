import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { DELETE_JOB, FAILED_JOBS, RETRY_JOB } from './operations.ts'

const WORDS: Record<string, string> = {
  'fire-plan': 'Plan that did not fire',
  'send-notice': 'Notification that was not accepted',
  'send-mail': 'Email that was not sent',
  'send-link': 'Email with a link that was not sent',
  'delete-old-rows': 'Deletion of old content',
  'finish-deletions': 'Deletion of agents, spaces and people',
  'restore-jobs': 'Recovery of jobs',
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
  const remove = useDo(async (id: string) =>
    payloadOf((await connection.ask(DELETE_JOB, { id })).deleteJob, 'DeleteJobPayload'),
  )
  const jobs = (data?.failedJobs?.edges ?? []).map(({ node }) => node)
  if (jobs.length === 0 && retry.error === null && remove.error === null) return null
  return (
    <section className="block card" aria-label="Failed jobs">
      <h2>Failed jobs</h2>
      <ul className="rows">
        {jobs.map(({ id, name, subjectId, attempts, error, failedAt }) => (
          <li key={id} className="plain-row">
            <span className="grow">
              <b>{WORDS[name] ?? name}</b> {subjectId !== null && <code className="note">{subjectId}</code>}
              <span className="note">
                {' '}
                failed <Moment at={failedAt} />, after {attempts} attempts
              </span>
              {error !== null && <p className="note">{error}</p>}
            </span>
            <Button onClick={() => retry.start(id)}>Retry</Button>
            <Button look="danger" onClick={() => remove.start(id)}>
              Delete
            </Button>
          </li>
        ))}
      </ul>
      {data?.failedJobs && (
        <More page={page} pageInfo={data.failedJobs.pageInfo}>
          More failed jobs
        </More>
      )}
      <Refused error={retry.error ?? remove.error} />
    </section>
  )
}

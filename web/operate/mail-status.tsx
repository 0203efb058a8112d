import { Link } from 'wouter'
import type { ConsoleMailStatusQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { Icon } from '../ui/icons.tsx'
import { Moment } from '../ui/time.tsx'

const MAIL_STATUS = graphql(`
  query ConsoleMailStatus {
    mailStatus { configured lastSentAt lastFailedAt lastError retrying failed }
  }
`)

const EVERY_MS = 10_000

type Status = NonNullable<ConsoleMailStatusQuery['mailStatus']>

/** Whether the last attempt to send an email failed. */
const isFailing = ({ lastSentAt, lastFailedAt }: Status) =>
  lastFailedAt !== null && (lastSentAt === null || lastSentAt < lastFailedAt)

/**
 * Shows admins whether emails reach the mail server and, if not, why. With `onlyTrouble`, shows nothing unless the last attempt
 * failed.
 */
export function MailStatus({ onlyTrouble = false }: { onlyTrouble?: boolean }) {
  const status = useAsk(MAIL_STATUS, {}, { everyMs: EVERY_MS }).data?.mailStatus
  if (status == null || (onlyTrouble && !isFailing(status))) return null
  return (
    <section className={`mail-status ${isFailing(status) ? 'failing' : ''}`} aria-label="Email" role="status">
      <Icon name="mail" />
      {isFailing(status) ? (
        <Trouble status={status} />
      ) : (
        <p className="note">
          <Calm status={status} />
        </p>
      )}
    </section>
  )
}

function Calm({ status: { configured, lastSentAt, retrying } }: { status: Status }) {
  if (!configured)
    return 'This server sends no email, so pass on invitations as links. To send email, the operator sets PARLEY_SMTP_URL.'
  if (lastSentAt === null) return 'Email is set up. No email was sent in the last 30 days.'
  return (
    <>
      Email works. The mail server accepted the last one: <Moment at={lastSentAt} />.
      {retrying > 0 && ` ${wordsOf(retrying)}.`}
    </>
  )
}

function Trouble({ status: { lastFailedAt, lastError, retrying, failed } }: { status: Status }) {
  return (
    <div className="grow">
      <p>
        <b>Email is not working.</b> Last attempt: <Moment at={lastFailedAt ?? ''} />. {lastError}
      </p>
      <p className="note">
        {retrying > 0 && `${wordsOf(retrying)} for about a day. `}
        {failed > 0 && (
          <>
            {failed === 1 ? '1 email could not be sent' : `${failed} emails could not be sent`}:{' '}
            <Link href="/audit">see the failed jobs</Link>.{' '}
          </>
        )}
        Until email works again, pass on invitations as links.
      </p>
    </div>
  )
}

const wordsOf = (retrying: number) =>
  retrying === 1 ? 'The server keeps trying to send 1 email' : `The server keeps trying to send ${retrying} emails`

import { payloadOf } from '../../client/index.ts'
import type { ConsoleInvitationsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { GivenInvitation, useInvite } from './inviting.tsx'
import { INVITATIONS, REVOKE_INVITATION } from './operations.ts'

type Invitation = NonNullable<ConsoleInvitationsQuery['invitations']>['edges'][number]['node']

/** Lists the invitations that nobody has used yet, with buttons to renew and to revoke them. */
export function OpenInvitations() {
  const invite = useInvite()
  return (
    <section className="block card" aria-label="Open invitations">
      <h2>Open invitations</h2>
      <GivenInvitation given={invite.given} />
      <Refused error={invite.error} />
      <Pages>{(page) => <Invitations page={page} invite={invite} />}</Pages>
    </section>
  )
}

function Invitations({ page, invite }: { page: PageOfList; invite: ReturnType<typeof useInvite> }) {
  const { connection } = useSession()
  const ask = useAsk(INVITATIONS, { after: page.after })
  const revoke = useDo(async (id: string) => {
    const { revokeInvitation } = await connection.ask(REVOKE_INVITATION, { id })
    // The invitation may have been used or have expired in the meantime.
    if (revokeInvitation.__typename !== 'NotFoundError') payloadOf(revokeInvitation, 'RevokeInvitationPayload')
  })
  /** Only hashes of links are stored, so a link that was lost is replaced. */
  const renew = ({ id, human, email, spaces }: Invitation) =>
    invite.start(
      {
        whom: { id: human?.id ?? null, name: human?.name ?? email ?? '', email },
        way: email === null ? 'link' : 'mail',
        spaceIds: spaces.map((space) => space.id),
      },
      () => revoke.start(id),
    )
  if (ask.data === undefined) return <Unanswered what="invitations" ask={ask} />
  const { invitations } = ask.data
  const listed = (invitations?.edges ?? []).map(({ node }) => node)
  return (
    <>
      {listed.length === 0 && page.after === null && <p className="hint">Nobody has an unused invitation.</p>}
      <ul className="rows">
        {listed.map((invitation) => (
          <Row
            key={invitation.id}
            invitation={invitation}
            isBusy={invite.isBusy || revoke.isBusy}
            onRenew={() => renew(invitation)}
            onRevoke={() => revoke.start(invitation.id)}
          />
        ))}
      </ul>
      {invitations && (
        <More page={page} pageInfo={invitations.pageInfo}>
          More invitations
        </More>
      )}
      <Refused error={revoke.error} />
    </>
  )
}

interface RowProps {
  invitation: Invitation
  isBusy: boolean
  onRenew(): void
  onRevoke(): void
}

function Row({ invitation, isBusy, onRenew, onRevoke }: RowProps) {
  const { human, email, spaces, invitedBy, createdAt, expiresAt } = invitation
  const whom = human?.name ?? email ?? ''
  const byMail = email !== null
  return (
    <li className="plain-row">
      <Icon name={byMail ? 'mail' : 'link'} />
      <span className="grow">
        <b>{whom}</b>{' '}
        <span className="note">
          {byMail ? (human === null ? 'by email' : `by email to ${email}`) : 'by link'}
          {spaces.length > 0 && `, joins ${spaces.map(({ name }) => name).join(', ')}`}
        </span>
        <span className="note second-line">
          invited by {invitedBy?.name ?? 'the operator'}, <Moment at={createdAt} /> · valid until{' '}
          <Moment at={expiresAt} />
        </span>
      </span>
      <span className="block-verbs">
        <Button isBusy={isBusy} onClick={onRenew} aria-label={`${byMail ? 'Send again' : 'New link'} for ${whom}`}>
          {byMail ? 'Send again' : 'New link'}
        </Button>
        <Button look="danger" isBusy={isBusy} onClick={onRevoke} aria-label={`Revoke the invitation of ${whom}`}>
          Revoke
        </Button>
      </span>
    </li>
  )
}

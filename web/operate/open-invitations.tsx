import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleInvitationsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { GivenInvitation, useInvite } from './inviting.tsx'
import { INVITATIONS, REVOKE_INVITATION } from './operations.ts'

type Invitation = NonNullable<ConsoleInvitationsQuery['invitations']>['edges'][number]['node']

/** Lists the invitations that nobody has used yet, with buttons to renew or revoke them. */
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
  const [revoked, setRevoked] = useState<Invitation | null>(null)
  const revoke = useDo(async (id: string) => {
    const { revokeInvitation } = await connection.ask(REVOKE_INVITATION, { id })
    // The invitation may have been used or have expired in the meantime.
    if (revokeInvitation.__typename !== 'NotFoundError') payloadOf(revokeInvitation, 'RevokeInvitationPayload')
  })
  /** Only hashes of links are stored, so a lost link is replaced with a new one. */
  const renew = (invitation: Invitation) => {
    const { id, human, email, spaces } = invitation
    invite.start(
      {
        whom: { id: human?.id ?? null, name: nameOf(invitation), email },
        way: email === null ? 'link' : 'mail',
        spaceIds: spaces.map((space) => space.id),
      },
      () => revoke.start(id),
    )
  }
  if (ask.data === undefined) return <Unanswered what="invitations" ask={ask} />
  const { invitations } = ask.data
  const listed = (invitations?.edges ?? []).map(({ node }) => node)
  return (
    <>
      {listed.length === 0 && page.after === null && (
        <p className="hint">No invitation is open. “Add person” creates one, and so does “Invite” next to a person.</p>
      )}
      <ul className="rows">
        {listed.map((invitation) => (
          <Row
            key={invitation.id}
            invitation={invitation}
            isBusy={invite.isBusy || revoke.isBusy}
            onRenew={() => renew(invitation)}
            onRevoke={() => setRevoked(invitation)}
          />
        ))}
      </ul>
      {invitations && (
        <More page={page} pageInfo={invitations.pageInfo}>
          More invitations
        </More>
      )}
      {revoked === null && <Refused error={revoke.error} />}
      <Confirm
        title={`Revoke the invitation of ${revoked === null ? '' : nameOf(revoked)}?`}
        submit="Revoke"
        open={revoked !== null}
        onOpenChange={(open) => !open && setRevoked(null)}
        isBusy={revoke.isBusy}
        error={revoke.error}
        onConfirm={() => revoked !== null && revoke.start(revoked.id, () => setRevoked(null))}
      >
        <p>
          The link stops working.{' '}
          {revoked?.human != null &&
            `${revoked.human.name} stays in the list of people, and you can invite them again.`}
        </p>
      </Confirm>
    </>
  )
}

const nameOf = ({ human, email }: Invitation) => human?.name ?? email ?? ''

interface RowProps {
  invitation: Invitation
  isBusy: boolean
  onRenew(): void
  onRevoke(): void
}

function Row({ invitation, isBusy, onRenew, onRevoke }: RowProps) {
  const { human, email, spaces, invitedBy, createdAt, expiresAt } = invitation
  const whom = nameOf(invitation)
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

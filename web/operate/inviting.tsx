import { type ReactNode, useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { SelectField } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { INVITE } from './invite-by-mail.tsx'
import { MailStatus } from './mail-status.tsx'
import { CREATE_INVITATION } from './operations.ts'
import { Secret } from './secret.tsx'

/** The invited person, or only an address. */
export interface Invited {
  /** The person; null if nobody has the address yet. */
  id: string | null
  name: string
  email: string | null
}

export type Way = 'mail' | 'link'

/** An invitation that was just made. */
export type Given = { way: 'mail'; email: string } | { way: 'link'; name: string; url: string; expiresAt: string }

/** Creates invitations. Sends a link by email, or gets a link that the inviter passes on. */
export function useInvite() {
  const { connection } = useSession()
  const [given, setGiven] = useState<Given | null>(null)
  const invite = useDo(
    async ({ whom, way, spaceIds = [] }: { whom: Invited; way: Way; spaceIds?: readonly string[] }) => {
      setGiven(null)
      if (way === 'mail') {
        const input = { email: whom.email ?? '', spaceIds: [...spaceIds] }
        const { email } = payloadOf((await connection.ask(INVITE, { input })).invite, 'InvitePayload')
        return setGiven({ way, email })
      }
      const made = await connection.ask(CREATE_INVITATION, { humanId: whom.id ?? '' })
      setGiven({ way, name: whom.name, ...payloadOf(made.createInvitation, 'CreateInvitationPayload') })
    },
  )
  return { ...invite, given }
}

/** Shows an invitation that was just made. */
export function GivenInvitation({ given }: { given: Given | null }) {
  if (given?.way === 'link')
    return <Secret label={`Link for ${given.name}: signs in once`} value={given.url} isOnce until={given.expiresAt} />
  return (
    <p role="status">
      {given !== null && `The invitation is being sent to ${given.email}. Its link can be used once, within 7 days.`}
    </p>
  )
}

interface WayFieldProps {
  way: Way | 'none'
  /** Whether the server can send email. */
  hasMail: boolean
  onWay(way: Way): void
}

/** The choice of how a person gets the invitation. Without a mail server, only a link is possible. */
export function WayField({ way, hasMail, onWay }: WayFieldProps) {
  if (!hasMail) return <p className="hint">You get a link to pass on. This server sends no email.</p>
  return (
    <SelectField
      label="Invitation"
      name="way"
      value={way}
      onChange={({ target }) => onWay(target.value as Way)}
      options={[
        ['mail', 'Email it to this address'],
        ['link', 'Give me a link to pass on'],
      ]}
    />
  )
}

interface InvitationStepProps {
  whom: Invited
  invite: ReturnType<typeof useInvite>
  onDone(): void
  /** A button next to the others. */
  button?: ReactNode
}

/** The last step of a dialog: shows the invitation, or why it could not be created, with another way to invite. */
export function InvitationStep({ whom, invite, onDone, button }: InvitationStepProps) {
  const { given, error, isBusy } = invite
  return (
    <>
      <GivenInvitation given={given} />
      {given?.way === 'mail' && <MailStatus onlyTrouble />}
      {given?.way === 'link' && (
        <p className="hint">
          Send the link to {whom.name} only: whoever opens it first is signed in as {whom.name}. Earlier links of{' '}
          {whom.name} no longer work.
        </p>
      )}
      <Refused error={error} />
      <div className="form-end">
        {given?.way !== 'link' && (
          <Button isBusy={isBusy} onClick={() => invite.start({ whom, way: 'link' })}>
            Get a link to pass on
          </Button>
        )}
        {button}
        <Button look="primary" onClick={onDone}>
          Done
        </Button>
      </div>
    </>
  )
}

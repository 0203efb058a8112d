import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { HumanRole } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { useMayInvite } from './invite-by-mail.tsx'
import { InvitationStep, type Invited, useInvite, type Way, WayField } from './inviting.tsx'
import { CREATE_HUMAN } from './operations.ts'

/** The roles, each with the rights that it gives. */
export const ROLES = [
  ['MEMBER', 'Member: uses spaces and agents'],
  ['ADMIN', 'Admin: also manages people, agents, models and all spaces'],
] as const

interface DialogProps {
  open: boolean
  onOpenChange(open: boolean): void
}

/** Creates a person and an invitation, and shows the invitation. */
export function AddPerson({ open, onOpenChange }: DialogProps) {
  // Each person gets a new instance of the form.
  const [count, setCount] = useState(0)
  return (
    <Dialog title="Add person" open={open} onOpenChange={onOpenChange}>
      <NewPerson key={count} onAnother={() => setCount(count + 1)} onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

function NewPerson({ onAnother, onDone }: { onAnother(): void; onDone(): void }) {
  const { connection } = useSession()
  const hasMail = useMayInvite()
  const invite = useInvite()
  const [added, setAdded] = useState<Invited | null>(null)
  const [email, setEmail] = useState('')
  const [chosen, setChosen] = useState<Way | null>(null)
  const way = chosen ?? (hasMail && email.trim() !== '' ? 'mail' : 'link')
  const create = useDo(async (values: FormData) => {
    const role: HumanRole = values.get('role') === 'ADMIN' ? 'ADMIN' : 'MEMBER'
    const input = { name: textIn(values, 'name') ?? '', email: textIn(values, 'email'), role }
    const { human } = payloadOf((await connection.ask(CREATE_HUMAN, { input })).createHuman, 'CreateHumanPayload')
    const whom = { ...human, email: input.email }
    setAdded(whom)
    invite.start({ whom, way })
  })
  if (added !== null)
    return (
      <div className="form">
        <p>{added.name} has been added.</p>
        <InvitationStep
          whom={added}
          invite={invite}
          onDone={onDone}
          button={<Button onClick={onAnother}>Add another person</Button>}
        />
      </div>
    )
  return (
    <Form
      label="Add person"
      submit="Add and invite"
      isBusy={create.isBusy}
      error={create.error}
      onSubmit={create.start}
    >
      <TextField label="Name" name="name" required maxLength={200} autoFocus />
      <TextField
        label="Email address"
        name="email"
        type="email"
        maxLength={254}
        required={way === 'mail'}
        placeholder={way === 'mail' ? '' : 'Optional'}
        value={email}
        onChange={({ target }) => setEmail(target.value)}
        hint="For sign-in by email, and for notifications."
      />
      <SelectField label="Role" name="role" options={ROLES} />
      <WayField way={way} hasMail={hasMail} onWay={setChosen} />
    </Form>
  )
}

/** Invites a person who already exists. */
export function InvitePerson({ whom, open, onOpenChange }: DialogProps & { whom: Invited }) {
  return (
    <Dialog title={`Invite ${whom.name}`} open={open} onOpenChange={onOpenChange}>
      <NewInvitation whom={whom} onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

function NewInvitation({ whom, onDone }: { whom: Invited; onDone(): void }) {
  const hasMail = useMayInvite() && whom.email !== null
  const invite = useInvite()
  const [chosen, setChosen] = useState<Way | null>(null)
  const way = hasMail ? (chosen ?? 'mail') : 'link'
  if (invite.given !== null)
    return (
      <div className="form">
        <InvitationStep whom={whom} invite={invite} onDone={onDone} />
      </div>
    )
  return (
    <Form
      label={`Invite ${whom.name}`}
      submit="Invite"
      isBusy={invite.isBusy}
      error={invite.error}
      onSubmit={() => invite.start({ whom, way })}
    >
      <WayField way={way} hasMail={hasMail} onWay={setChosen} />
    </Form>
  )
}

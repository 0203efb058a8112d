import { useRef, useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { useSession } from '../session.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'

const MAY_INVITE = graphql(`
  query ConsoleMayInvite {
    viewer { mayInvite }
  }
`)

export const INVITE = graphql(`
  mutation ConsoleInvite($input: InviteInput!) {
    invite(input: $input) {
      __typename
      ... on InvitePayload { email }
      ... on Error { message code }
    }
  }
`)

/** Whether the viewer may invite people by email. */
export function useMayInvite({ enabled = true } = {}): boolean {
  return useAsk(MAY_INVITE, {}, { enabled }).data?.viewer.mayInvite === true
}

/** Sends an invitation by email, if the viewer may. */
export function InviteByMail({ spaceIds }: { spaceIds: readonly string[] }) {
  const { connection } = useSession()
  const mayInvite = useMayInvite()
  const form = useRef<HTMLFormElement>(null)
  const [invited, setInvited] = useState<string | null>(null)
  const invite = useDo(async (values: FormData) => {
    setInvited(null)
    const input = { email: textIn(values, 'email') ?? '', spaceIds: [...spaceIds] }
    setInvited(payloadOf((await connection.ask(INVITE, { input })).invite, 'InvitePayload').email)
    form.current?.reset()
  })
  if (!mayInvite) return null
  return (
    <section className="block">
      <Form
        ref={form}
        label="Invite by email"
        submit="Send invitation"
        isBusy={invite.isBusy}
        error={invite.error}
        onSubmit={invite.start}
      >
        <TextField
          label="Invite by email"
          name="email"
          type="email"
          required
          maxLength={254}
          placeholder="name@example.com"
          hint={
            spaceIds.length === 0
              ? 'Parley emails a link that works for one sign-in, within 7 days.'
              : 'Parley emails a link that works for one sign-in, within 7 days, and joins this space.'
          }
        />
      </Form>
      <p role="status" className="hint">
        {invited === null ? '' : `The invitation is being sent to ${invited}.`}
      </p>
    </section>
  )
}

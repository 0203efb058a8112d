import { useState } from 'react'
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

const INVITE = graphql(`
  mutation ConsoleInvite($input: InviteInput!) {
    invite(input: $input) {
      __typename
      ... on InvitePayload { email }
      ... on Error { message code }
    }
  }
`)

/** Has an invitation mailed, if the viewer may. */
export function InviteByMail({ spaceIds }: { spaceIds: readonly string[] }) {
  const { connection } = useSession()
  const { data } = useAsk(MAY_INVITE, {})
  const [invited, setInvited] = useState<string | null>(null)
  const invite = useDo(async (values: FormData) => {
    setInvited(null)
    const input = { email: textIn(values, 'email') ?? '', spaceIds: [...spaceIds] }
    setInvited(payloadOf((await connection.ask(INVITE, { input })).invite, 'InvitePayload').email)
  })
  if (data?.viewer.mayInvite !== true) return null
  return (
    <section className="block">
      <Form
        label="Invite by mail"
        submit="Send invitation"
        isBusy={invite.isBusy}
        error={invite.error}
        onSubmit={invite.start}
      >
        <TextField
          label="Invite by mail"
          name="email"
          type="email"
          required
          maxLength={254}
          placeholder="name@example.com"
          hint={
            spaceIds.length === 0
              ? 'Parley mails a link that signs in once, within 7 days.'
              : 'Parley mails a link that signs in and joins this space, once, within 7 days.'
          }
        />
      </Form>
      <p role="status" className="hint">
        {invited === null ? '' : `An invitation is on its way to ${invited}.`}
      </p>
    </section>
  )
}

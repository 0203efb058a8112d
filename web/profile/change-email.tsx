import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { useSession } from '../session.tsx'
import { useSignInWays } from '../shell/sign-in-ways.ts'
import { Form, TextField, textIn } from '../ui/field.tsx'

const CHANGE_EMAIL = graphql(`
  mutation ConsoleChangeEmail($input: UpdateHumanInput!) {
    updateHuman(input: $input) {
      __typename
      ... on UpdateHumanPayload { human { id email } }
      ... on Error { message code }
    }
  }
`)

/** Changes the viewer's own address. The change takes effect when the link sent to the new address has been opened. */
export function ChangeEmail({ human }: { human: { id: string; email: string | null } }) {
  const { connection, isAdmin } = useSession()
  const hasMail = useSignInWays()?.mail ?? true
  const [status, setStatus] = useState('')
  const change = useDo(async (values: FormData) => {
    setStatus('')
    const email = textIn(values, 'email') ?? ''
    const changed = await connection.ask(CHANGE_EMAIL, { input: { id: human.id, email } })
    const { email: current } = payloadOf(changed.updateHuman, 'UpdateHumanPayload').human
    const isChanged = current?.toLowerCase() === email.toLowerCase()
    setStatus(isChanged ? 'Saved.' : `Open the link that is emailed to ${email}, in this browser, to confirm it.`)
  })
  // Only admins may set an address that nobody has confirmed.
  if (!hasMail && !isAdmin) {
    return (
      <section className="block card">
        <h2>Email address</h2>
        <p>{human.email ?? 'None.'}</p>
        <p className="hint">This server sends no email, so it cannot confirm an address. An admin can set yours.</p>
      </section>
    )
  }
  return (
    <section className="block card">
      <h2>Email address</h2>
      <Form
        label="Email address"
        submit={human.email === null ? 'Add the address' : 'Change the address'}
        isBusy={change.isBusy}
        error={change.error}
        onSubmit={change.start}
      >
        <TextField
          label="Address"
          name="email"
          type="email"
          required
          maxLength={254}
          defaultValue={human.email ?? ''}
          hint={`${hasMail ? 'You sign in with this address and get notifications there.' : 'Kept for later: this server sends no email.'} Admins can see it, other people cannot.`}
        />
        <p role="status" className="hint">
          {status}
        </p>
      </Form>
    </section>
  )
}

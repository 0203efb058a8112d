import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { useSession } from '../session.tsx'
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
  const { connection } = useSession()
  const [status, setStatus] = useState('')
  const change = useDo(async (values: FormData) => {
    setStatus('')
    const email = textIn(values, 'email') ?? ''
    const changed = await connection.ask(CHANGE_EMAIL, { input: { id: human.id, email } })
    const { email: current } = payloadOf(changed.updateHuman, 'UpdateHumanPayload').human
    const isChanged = current?.toLowerCase() === email.toLowerCase()
    setStatus(isChanged ? 'Saved.' : `Open the link that is emailed to ${email}, in this browser, to confirm it.`)
  })
  return (
    <section className="block card">
      <h2>E-mail address</h2>
      <Form
        label="E-mail address"
        submit="Change the address"
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
          hint="You sign in with this address and get notifications there. Admins can see it, other people cannot."
        />
        <p role="status" className="hint">
          {status}
        </p>
      </Form>
    </section>
  )
}

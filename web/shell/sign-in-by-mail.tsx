import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Button } from '../ui/button.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { isJoinLink } from './link-paths.ts'
import { keepReturnPath } from './return-path.ts'

/** Sends a sign-in link by email. */
export function SignInByMail() {
  const [sentTo, setSentTo] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ParleyError | null>(null)
  async function request(email: string): Promise<void> {
    setBusy(true)
    setError(null)
    try {
      const answer = await fetch(addressOf('/auth/mail'), {
        method: 'POST',
        headers: { 'x-parley-csrf': '1', 'content-type': 'application/json' },
        body: JSON.stringify({ email }),
      })
      const { error: refusal } = (await answer.json()) as { error?: string }
      if (!answer.ok) throw new ParleyError(refusal ?? `HTTP status ${answer.status}`, 'BAD_INPUT')
      keepReturnPath()
      setSentTo(email)
    } catch (failure) {
      setError(errorOf(failure))
    } finally {
      setBusy(false)
    }
  }
  if (sentTo !== null)
    return (
      <>
        <p role="status">
          If somebody on this server has the address <b>{sentTo}</b>, an email with a link is on its way. The link works
          once, within 15 minutes.{isJoinLink() && ' After signing in, open the link to the space again.'}
        </p>
        <p className="hint">
          No email? Look in the spam folder, or ask an admin which address you have on this server.
        </p>
        <div className="form-end">
          <Button onClick={() => setSentTo(null)}>Use another address</Button>
        </div>
      </>
    )
  return (
    <Form
      label="Sign in by email"
      submit="Email me a link"
      isBusy={isBusy}
      error={error}
      onSubmit={(values) => void request(textIn(values, 'email') ?? '')}
    >
      <TextField
        label="Email address"
        name="email"
        type="email"
        required
        maxLength={254}
        autoComplete="email"
        hint="You get an email with a link that signs you in. You need no password."
      />
    </Form>
  )
}

import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
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
      <p role="status">
        If somebody here has the address {sentTo}, a mail with a link is on its way. The link works once, for 15
        minutes.{isJoinLink() && ' After signing in, open the link to the space again.'}
      </p>
    )
  return (
    <Form
      label="Sign in by email"
      submit="Email me a link"
      isBusy={isBusy}
      error={error}
      onSubmit={(values) => void request(textIn(values, 'email') ?? '')}
    >
      <TextField label="E-mail address" name="email" type="email" required maxLength={254} autoComplete="email" />
    </Form>
  )
}

import { useState } from 'react'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { isJoinLink } from './join.tsx'
import { SignInByMail } from './sign-in-by-mail.tsx'
import { SignInByProvider } from './sign-in-by-provider.tsx'

interface SignInProps {
  onToken(token: string): void
  /** Why the viewer must sign in again. */
  reason: string | null
}

/** Signs in with a token. The operator's token is on the server's machine. */
export function SignIn({ onToken, reason }: SignInProps) {
  const [isTried, setTried] = useState(false)
  const isJoining = isJoinLink()
  const error = reason === null || isTried ? null : new ParleyError(reason, 'UNAUTHENTICATED')
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <p className="brand">
          <span className="brand-mark" aria-hidden="true" />
          <strong>Parley</strong>
        </p>
        {isJoining ? (
          <>
            <h1>Join a space</h1>
            <p>You were given a link to a space. Sign in to join it. No account? Ask the sender for an invitation.</p>
            <p className="hint">
              You decide after signing in: the next page says what the members will see of you, and asks before you
              join.
            </p>
          </>
        ) : (
          <>
            <h1>Rooms for people and agents</h1>
            <p>
              People and AI agents share conversations. For every message you see which agents woke, which did not, and
              why.
            </p>
          </>
        )}
        <SignInByProvider />
        <SignInByMail />
        <Form
          label="Sign in"
          submit="Sign in"
          isBusy={false}
          error={error}
          onSubmit={(values) => {
            setTried(true)
            const token = textIn(values, 'token')
            if (token !== null) onToken(token)
            setTried(false)
          }}
        >
          <TextField
            label="Token"
            name="token"
            type="password"
            required
            spellCheck={false}
            hint={
              isJoining
                ? 'The token that an admin of this server gave you. It signs this browser in for 30 days.'
                : 'When it starts, the server prints where the operator’s token is. That token stays in this tab; a person’s token signs this browser in for 30 days.'
            }
          />
        </Form>
        <p className="hint">Lost your way in? Ask an admin of this server for a new invitation.</p>
        {!isJoining && (
          <p className="hint">
            Building a client? <a href={addressOf('/graphql')}>GraphiQL</a> documents the API.
          </p>
        )}
      </div>
    </main>
  )
}

import { useState } from 'react'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
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
  // Null until the server has answered. The token is folded if there is another way to sign in.
  const [byProvider, setByProvider] = useState<boolean | null>(null)
  const [byMail, setByMail] = useState<boolean | null>(null)
  const error = reason === null || isTried ? null : new ParleyError(reason, 'UNAUTHENTICATED')
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <p className="brand">
          <span className="brand-mark" aria-hidden="true" />
          <strong>Parley</strong>
        </p>
        <h1>Rooms for people and agents</h1>
        <p>
          People and AI agents share conversations. For every message you see which agents woke, which did not, and why.
        </p>
        {error !== null && <Refused error={error} />}
        <SignInByProvider onKnown={setByProvider} />
        <SignInByMail onKnown={setByMail} />
        <details open={byProvider === false && byMail === false}>
          <summary>Sign in with a token</summary>
          <Form
            label="Sign in"
            submit="Sign in"
            isBusy={false}
            error={null}
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
              hint="When it starts, the server prints where the operator’s token is. That token stays in this tab; a person’s token signs this browser in for 30 days."
            />
          </Form>
        </details>
        <p className="hint">Lost your way in? Ask an admin of this server for a new invitation.</p>
        <p className="hint">
          Building a client? <a href={addressOf('/graphql')}>GraphiQL</a> documents the API.
        </p>
      </div>
    </main>
  )
}

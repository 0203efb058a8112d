import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Loading, Refused } from '../ui/notice.tsx'
import { EntryCard } from './entry-card.tsx'
import { isJoinLink } from './link-paths.ts'
import { SignInByMail } from './sign-in-by-mail.tsx'
import { SignInByProvider } from './sign-in-by-provider.tsx'
import { useSignInWays } from './sign-in-ways.ts'

interface SignInProps {
  onToken(token: string): void
  /** The credential that the server does not accept, or no longer accepts. */
  refused: keyof typeof REASONS | null
}

const REASONS = {
  token: 'This token is not valid. Check that you copied all of it. A token can also have expired or been revoked.',
  session: 'Your session has ended. Sign in again.',
}

/** The last token that was entered. It stays in its field if the server refuses it. */
let enteredToken = ''

/** Offers the ways to sign in. If there is another way, the token field is collapsed, because most people have no token. */
export function SignIn({ onToken, refused }: SignInProps) {
  const isJoining = isJoinLink()
  const ways = useSignInWays()
  const byToken = (
    <SignInByToken isJoining={isJoining} onToken={onToken} entered={refused === 'token' ? enteredToken : ''} />
  )
  return (
    <EntryCard title={isJoining ? 'Join a space' : 'Rooms for people and agents'}>
      {isJoining ? (
        <>
          <p>You were given a link to a space. Sign in to join it. No account? Ask the sender for an invitation.</p>
          <p className="hint">
            After you sign in, the next page shows what the members will see of you, and asks before you join.
          </p>
        </>
      ) : (
        <p>
          People and AI agents share conversations. For every message you see which agents woke, which did not, and why.
        </p>
      )}
      <Refused error={refused === null ? null : new ParleyError(REASONS[refused], 'UNAUTHENTICATED')} />
      {ways === null ? (
        <Loading what="the ways to sign in" />
      ) : (
        <>
          <SignInByProvider providers={ways.providers} />
          {ways.mail && <SignInByMail />}
          {ways.mail || ways.providers.length > 0 ? (
            <details className="fold" open={refused === 'token'}>
              <summary>Sign in with a token</summary>
              {byToken}
            </details>
          ) : (
            byToken
          )}
        </>
      )}
      <p className="hint">
        {isJoining
          ? 'Invited to this server? Open the invitation first, then this link again.'
          : 'Invited? Open the link that was sent to you. If it no longer works, or if you have no account, ask an admin of this server for an invitation.'}
      </p>
      {!isJoining && (
        <p className="hint">
          Building a client? <a href={addressOf('/graphql')}>GraphiQL</a> documents the API.
        </p>
      )}
    </EntryCard>
  )
}

interface SignInByTokenProps {
  isJoining: boolean
  /** The first value of the field. */
  entered: string
  onToken(token: string): void
}

/** Signs in with a token. The operator's token is on the server's machine. */
function SignInByToken({ isJoining, entered, onToken }: SignInByTokenProps) {
  const submit = (values: FormData) => {
    const token = textIn(values, 'token')
    if (token === null) return
    enteredToken = token
    onToken(token)
  }
  return (
    <Form label="Sign in" submit="Sign in" isBusy={false} error={null} onSubmit={submit}>
      <TextField
        label="Token"
        name="token"
        type="password"
        defaultValue={entered}
        required
        spellCheck={false}
        hint={
          isJoining
            ? 'An admin of this server can give you a token. You stay signed in to this browser for 30 days.'
            : 'Operators: the server prints where your token is when it starts, and you stay signed in until you close this tab. With a token from an admin, you stay signed in to this browser for 30 days.'
        }
      />
    </Form>
  )
}

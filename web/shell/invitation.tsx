import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'

const INVITED = {
  title: 'You are invited',
  text: 'This signs you in, in this browser. The invitation works once.',
  usedUp: 'This invitation was already used or has expired. Ask for a new one.',
}
const STARTED = {
  title: 'Welcome to Parley',
  text: 'This signs you in as the operator, in this tab. The link works once, for 15 minutes after the start, and only while the server has no people.',
  usedUp:
    'This link was already used or has expired. Sign in with the admin token. A restart prints a new link only while no person exists.',
}
const TOO_MANY = 'Too many failed sign-ins. Try again in a minute.'
const UNREACHABLE = 'The server cannot be reached. Try again.'

/** Signs in only after a click, so that programs that preview the link do not use up the invitation. */
export function Invitation({ path, onToken }: { path: string; onToken(token: string): void }) {
  const words = path.startsWith('/sign-in/') ? STARTED : INVITED
  const [error, setError] = useState<ParleyError | null>(null)
  async function accept(): Promise<void> {
    const answer = await fetch(addressOf(path), { method: 'POST' }).catch(() => {
      throw new ParleyError(UNREACHABLE, 'NETWORK')
    })
    if (answer.status === 429) throw new ParleyError(TOO_MANY, 'RATE_LIMITED')
    if (!answer.ok) throw new ParleyError(words.usedUp, 'NOT_FOUND')
    const { token } = (await answer.json()) as { token: string }
    onToken(token)
  }
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <p className="brand">
          <span className="brand-mark" aria-hidden="true" />
          <strong>Parley</strong>
        </p>
        <h1>{words.title}</h1>
        <p>{words.text}</p>
        <Refused error={error} />
        <div className="form-end">
          {error !== null && (
            <a className="button" href={addressOf('/')}>
              Go to the console
            </a>
          )}
          <Button look="primary" onClick={() => void accept().catch((failure) => setError(errorOf(failure)))}>
            Sign in
          </Button>
        </div>
      </div>
    </main>
  )
}

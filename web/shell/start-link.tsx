import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { EntryCard } from './entry-card.tsx'

const USED_UP =
  'This link was already used or has expired. Sign in with the admin token. A restart prints a new link only while no person exists.'
const TOO_MANY = 'Too many failed sign-ins. Try again in a minute.'
const UNREACHABLE = 'The server cannot be reached. Try again.'

interface StartLinkProps {
  path: string
  onToken(token: string): void
}

/**
 * Signs the operator in with the link that the server prints. The link works only after a click, because some programs
 * preview links.
 */
export function StartLink({ path, onToken }: StartLinkProps) {
  const [error, setError] = useState<ParleyError | null>(null)
  const [isBusy, setBusy] = useState(false)
  async function accept(): Promise<void> {
    setBusy(true)
    try {
      const answer = await fetch(addressOf(path), { method: 'POST' }).catch(() => {
        throw new ParleyError(UNREACHABLE, 'NETWORK')
      })
      if (answer.status === 429) throw new ParleyError(TOO_MANY, 'RATE_LIMITED')
      if (!answer.ok) throw new ParleyError(USED_UP, 'NOT_FOUND')
      const { token } = (await answer.json()) as { token: string }
      onToken(token)
    } catch (failure) {
      setError(errorOf(failure))
    } finally {
      setBusy(false)
    }
  }
  return (
    <EntryCard title="Welcome to Parley">
      <p>
        Sign in as the operator, who manages the server. You stay signed in until you close this tab. The link works
        once, within 15 minutes after the server started, and only while the server has no people.
      </p>
      <Refused error={error} />
      <div className="form-end">
        {error?.code === 'NOT_FOUND' ? (
          <a className="button primary" href={addressOf('/')}>
            Sign in with the token
          </a>
        ) : (
          <Button look="primary" isBusy={isBusy} onClick={() => void accept()}>
            Sign in
          </Button>
        )}
      </div>
    </EntryCard>
  )
}

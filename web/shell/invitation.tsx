import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'

/** The code of an invitation link; null on other pages. */
export const invitationCode = () => /^\/invitations\/([^/]+)$/.exec(location.pathname)?.[1] ?? null

const USED_UP = 'This invitation was already used or has expired. Ask for a new one.'
const UNREACHABLE = 'The server cannot be reached. Try again.'

/** Signs in only after a click, so that programs that preview the link do not use up the invitation. */
export function Invitation({ code, onToken }: { code: string; onToken(token: string): void }) {
  const [error, setError] = useState<ParleyError | null>(null)
  async function accept(): Promise<void> {
    const answer = await fetch(`/invitations/${code}`, { method: 'POST' }).catch(() => {
      throw new ParleyError(UNREACHABLE, 'NETWORK')
    })
    if (!answer.ok) throw new ParleyError(USED_UP, 'NOT_FOUND')
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
        <h1>You are invited</h1>
        <p>This signs you in, in this tab. The invitation works once.</p>
        <Refused error={error} />
        <div className="form-end">
          <Button look="primary" onClick={() => void accept().catch((failure) => setError(errorOf(failure)))}>
            Sign in
          </Button>
        </div>
      </div>
    </main>
  )
}

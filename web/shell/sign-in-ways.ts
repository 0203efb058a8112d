import { useEffect, useState } from 'react'
import { addressOf } from '../location.ts'

export interface IdentityProvider {
  name: string
  label: string
}

/** How people can sign in to this server, other than with a token or an invitation. */
export interface SignInWays {
  /** Whether the server can send email. */
  mail: boolean
  providers: IdentityProvider[]
}

/** Returns null until the server has answered. If a request fails, its ways are missing. */
export function useSignInWays(): SignInWays | null {
  const [ways, setWays] = useState<SignInWays | null>(null)
  useEffect(() => {
    void Promise.all([
      readJson<{ mail?: boolean }>('/auth/session'),
      readJson<{ providers?: IdentityProvider[] }>('/auth/oidc'),
    ]).then(([session, oidc]) => setWays({ mail: session?.mail === true, providers: oidc?.providers ?? [] }))
  }, [])
  return ways
}

/** Returns null if the request fails. */
async function readJson<Answer>(path: string): Promise<Answer | null> {
  try {
    const answer = await fetch(addressOf(path), { headers: { 'x-parley-csrf': '1' } })
    return answer.ok ? ((await answer.json()) as Answer) : null
  } catch {
    return null
  }
}
